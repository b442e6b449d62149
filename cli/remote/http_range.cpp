// Adapter to libcurl's easy interface; its handle lives here only and keeps the connection.
#include "cli/remote/http_range.hpp"

#include <algorithm>
#include <charconv>
#include <curl/curl.h>
#include <fmt/format.h>
#include <mutex>
#include <sys/socket.h>
#include <vector>

#include "cli/remote/range_headers.hpp"
#include "common/os/socket_deadline.hpp"

namespace stoker::cli {

namespace {

constexpr long kMostRedirects = 5, kConnectMs = 10'000, kIdleSeconds = 30;
constexpr std::uint64_t kMostExplained = 64u << 10;  // of an error's page
constexpr long kSureSeconds = 2;  // a file older than this when it was sent has one state a date

constexpr Duration kGreeted = std::chrono::milliseconds(kConnectMs) + os::kOverdue;  // also by TLS

using Deadlines = std::vector<os::SocketDeadline>;

curl_socket_t open_socket(void* deadlines, curlsocktype, curl_sockaddr* address) {
  const int made = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  static_cast<Deadlines*>(deadlines)->emplace_back(made, kGreeted);
  return made;
}

// The connection stands; a slow answer has its own limit (kIdleSeconds).
int be_greeted(void* deadlines, char*, char*, int, int) {
  static_cast<Deadlines*>(deadlines)->clear();
  return CURL_PREREQFUNC_OK;
}

struct Transfer {
  CURL* easy = nullptr;
  const RangeRequest* request = nullptr;
  RangeHeaders headers;
  std::uint64_t read = 0;  // bytes of the body
  bool overflow = false;
};

std::size_t take_header(char* data, std::size_t size, std::size_t count, void* target) {
  static_cast<Transfer*>(target)->headers.take({data, size * count});
  return size * count;
}

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* target) {
  auto& t = *static_cast<Transfer*>(target);
  const std::size_t bytes = size * count;
  RangeAnswer& answer = t.headers.answer;
  long status = 0;
  curl_easy_getinfo(t.easy, CURLINFO_RESPONSE_CODE, &status);
  std::string_view part(data, bytes);
  const std::uint64_t at = t.read;
  t.read += bytes;
  if (status != 200 && status != 206)  // an explaining page; not kept, and no matter how long
    return t.read > kMostExplained ? 0 : bytes;
  if (status == 206) {
    if (answer.body.size() + bytes > t.request->bytes) t.overflow = true;
    if (!t.overflow) answer.body.append(part);
    return t.overflow ? 0 : bytes;
  }
  answer.whole = true;
  if (t.read > t.request->whole_limit) {
    answer.too_large = true;
    return 0;
  }
  if (t.request->from && at < *t.request->from)
    part.remove_prefix(
        static_cast<std::size_t>(std::min<std::uint64_t>(*t.request->from - at, bytes)));
  answer.body.append(part);
  if (t.request->from) return bytes;
  if (answer.body.size() > 2 * t.request->bytes)  // the last bytes are wanted
    answer.body.erase(0, answer.body.size() - static_cast<std::size_t>(t.request->bytes));
  return bytes;
}

std::string without_password(const std::string& url) {
  const auto scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  const auto end = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  const auto at = url.rfind('@', end);
  if (at == std::string::npos || at < scheme || at >= end) return url;
  return fmt::format("{}…@{}", url.substr(0, scheme + 3), url.substr(at + 1));
}

}  // namespace

struct HttpRange::Impl {
  std::string url;
  CURL* easy = nullptr;
  Deadlines deadlines;  // of connections that do not stand yet
  ~Impl() {
    if (easy != nullptr) curl_easy_cleanup(easy);
  }
};

HttpRange::HttpRange(std::string url)
    : impl_(std::make_unique<Impl>()), shown_(without_password(url)) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  impl_->url = std::move(url);
  impl_->easy = curl_easy_init();
  CURL* easy = impl_->easy;
  const bool secure = impl_->url.starts_with("https:");
  curl_easy_setopt(easy, CURLOPT_URL, impl_->url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXREDIRS, kMostRedirects);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "stoker/" STOKER_VERSION);
  curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, nullptr);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kIdleSeconds);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &impl_->deadlines);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, be_greeted);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, &impl_->deadlines);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
}

HttpRange::~HttpRange() = default;

RangeAnswer HttpRange::get(const RangeRequest& request) {
  CURL* easy = impl_->easy;
  Transfer transfer;
  transfer.easy = easy;
  transfer.request = &request;
  const std::string range =
      request.from ? fmt::format("{}-{}", *request.from, *request.from + request.bytes - 1)
                   : fmt::format("-{}", request.bytes);
  curl_slist* headers = nullptr;
  if (!request.etag.empty())
    headers = curl_slist_append(headers, fmt::format("If-None-Match: {}", request.etag).c_str());
  else if (!request.modified.empty())
    headers =
        curl_slist_append(headers, fmt::format("If-Modified-Since: {}", request.modified).c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  const CURLcode code = curl_easy_perform(easy);
  impl_->deadlines.clear();
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, nullptr);
  curl_slist_free_all(headers);
  RangeAnswer answer = std::move(transfer.headers.answer);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
  curl_off_t seconds = 0;
  if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0)
    answer.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 3600));
  if (answer.status == 206 && !transfer.headers.ranged) answer.begin = UINT64_MAX;
  if (answer.whole) {
    answer.total = transfer.read;
    answer.begin =
        request.from ? std::min(*request.from, transfer.read) : transfer.read - answer.body.size();
  }
  const bool kept = answer.status == 200 || answer.status == 206;
  const bool explained = !kept && transfer.read > kMostExplained;  // cut off, and said all
  if (code != CURLE_OK && !answer.too_large && !explained) {
    answer.error =
        transfer.overflow ? "the server sends more than was asked for" : curl_easy_strerror(code);
    if (code != CURLE_PARTIAL_FILE && code != CURLE_OPERATION_TIMEDOUT) answer.status = 0;
  }
  // Two changes within a second have the same date; only one that is over is a state.
  const auto sent = curl_getdate(transfer.headers.date.c_str(), nullptr);
  const auto changed = curl_getdate(answer.modified.c_str(), nullptr);
  if (sent < 0 || changed < 0 || sent - changed < kSureSeconds) answer.modified.clear();
  return answer;
}

Status check_url(const std::string& url) {
  const bool http = url.starts_with("http://") || url.starts_with("https://");
  const auto host = url.find("://");
  if (!http) return fail("is no http or https URL", without_password(url));
  if (url.size() == host + 3 || url[host + 3] == '/')
    return fail("names no host", without_password(url));
  const bool clean =
      std::none_of(url.begin(), url.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7f; });
  if (!clean) return fail("has blanks or control characters in it; write them as %20", "the URL");
  return ok();
}

}  // namespace stoker::cli
