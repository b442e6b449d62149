#include "core/supply/rest_access.hpp"

#include <algorithm>
#include <charconv>

namespace stoker::core {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_name(std::string_view host) {
  return !host.empty() && host.size() < 256 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-';
  });
}

bool is_ipv6(std::string_view host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']' &&
         host.find_first_not_of("0123456789abcdefABCDEF:.", 1) == host.size() - 1;
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "[::1]") return true;
  return host.starts_with("127.") &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_port(std::string_view text) {
  unsigned port = 0;
  if (!is_digits(text) || text.size() > 5) return false;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port >= 1 && port <= 65535;
}

Status check_socket(std::string_view path) {
  constexpr std::size_t kLongest = 107;  // sockaddr_un
  if (!path.starts_with('/'))
    return fail("unix: needs an absolute path, like unix:/run/slurmrestd.sock");
  if (path.size() > kLongest) return fail("the path of a socket has at most 107 bytes");
  const bool control = std::any_of(path.begin(), path.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (control) return fail("holds a control character");
  return ok();
}

}  // namespace

Status check_rest_url(const RestAccess& access) {
  std::string_view rest = access.url;
  if (rest.starts_with(kUnixUrl)) return check_socket(rest.substr(kUnixUrl.size()));
  const bool plain = rest.starts_with("http://"), secure = rest.starts_with("https://");
  if (!plain && !secure)
    return fail("expected unix:/PATH, https://HOST:PORT, or http:// to this host");
  rest.remove_prefix(secure ? 8 : 7);
  const auto colon = rest.starts_with('[') ? rest.find(':', std::min(rest.find(']'), rest.size()))
                                           : rest.find(':');
  const std::string_view host = rest.substr(0, colon);
  const bool port = colon == std::string_view::npos || is_port(rest.substr(colon + 1));
  if ((!is_name(host) && !is_ipv6(host)) || !port)
    return fail("expected a host and a port alone, like https://slurm.example.org:6820");
  if (plain && !is_loopback(host) && !access.insecure)
    return fail(
        "http shows the token to everybody on the way: use https, or say rest.insecure: true");
  return ok();
}

}  // namespace stoker::core
