// By hand and strict: what is not understood is refused.
#include "daemon/http/web_request.hpp"

#include <charconv>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "common/hash.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kMostParameters = 16;

Result<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      unsigned value = 0;
      const char* begin = text.data() + i + 1;
      const bool whole = i + 2 < text.size();
      if (!whole || std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2)
        return fail("a % without two hexadecimal digits", "the address");
      c = static_cast<char>(value);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return fail("a control character", "the address");
    out += c;
  }
  return out;
}

std::string hmac_hex(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace

Result<WebRequest> parse_target(std::string_view target) {
  WebRequest request;
  const auto mark = target.find('?');
  STOKER_TRY(path, decode(target.substr(0, mark), false));
  request.path = std::move(path);
  std::string_view rest = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    STOKER_TRY(name, decode(pair.substr(0, equals), true));
    STOKER_TRY(value,
               decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), true));
    if (!request.query.emplace(name, value).second) return fail("is given twice", name);
    if (request.query.size() > kMostParameters) return fail("too many parameters", "the address");
  }
  return request;
}

Status only_known(const WebRequest& request, const std::set<std::string>& known) {
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [name, value] : request.query)
    if (name != "token" && !known.contains(name))
      return fail("is no parameter of this address", name,
                  known.empty() ? "it takes none" : "it takes " + names);
  return ok();
}

std::string etag_of(std::string_view body) {
  return "\"" + hex64(xxh3_64(body)) + "\"";
}

bool etag_matches(std::string_view if_none_match, std::string_view etag) {
  while (!if_none_match.empty()) {
    const auto comma = if_none_match.find(',');
    std::string_view one = if_none_match.substr(0, comma);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one == etag || one == "*") return true;
    if (comma == std::string_view::npos) break;
    if_none_match.remove_prefix(comma + 1);
  }
  return false;
}

SessionCookie session_cookie(std::string_view token) {
  return {"stoker-" + hmac_hex(token, "name of the cookie").substr(0, 8),
          hmac_hex(token, "value of the cookie")};
}

std::string_view cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const auto semicolon = header.find(';');
    std::string_view pair = header.substr(0, semicolon);
    while (!pair.empty() && pair.front() == ' ') pair.remove_prefix(1);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
    if (semicolon == std::string_view::npos) break;
    header.remove_prefix(semicolon + 1);
  }
  return {};
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace stoker::daemon
