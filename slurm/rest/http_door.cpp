// Adapter to libcurl; its handles live here only.
#include "slurm/rest/http_door.hpp"

#include <cerrno>
#include <cstring>
#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json.hpp"
#include "common/os/conversation_limit.hpp"
#include "common/os/fd.hpp"
#include "common/os/listener.hpp"
#include "common/os/own_files.hpp"
#include "common/os/secret.hpp"
#include "common/os/socket_deadline.hpp"
#include "common/os/way.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kLongestBody = 16u << 20;
constexpr std::size_t kLongestStream = 1u << 30;
constexpr long kConnectMs = 10'000;

using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

std::string why_no_socket(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::strerror(errno);
  return S_ISSOCK(info.st_mode) ? "" : "is no socket";
}

// Who listens gets the token and the jobs. Where others may make files (/tmp), that may be anybody.
std::string why_not_trusted(int socket, const std::string& path) {
  ucred server{};
  socklen_t size = sizeof server;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &server, &size) != 0)
    return "it cannot be seen who listens on it";
  if (server.uid == 0 || server.uid == ::geteuid()) return "";
  const std::string folder = os::open_folder_before(path, server.uid);
  if (folder.empty()) return "";
  return fmt::format(
      "refused: {} listens on it, and {} is a folder where others may make a socket; nothing was "
      "sent",
      os::user_name_of(server.uid), folder);
}

RestAnswer unreached(std::string why) {
  RestAnswer answer;
  answer.error = std::move(why);
  answer.reached = false;
  return answer;
}

struct Transfer {
  CURL* easy = nullptr;
  std::string path;  // of the Unix socket; "" = none
  int socket = -1;
  Duration limit_of_time{};
  os::ConversationLimit conversation;
  std::string distrust;
  const RestDoor::Take* take = nullptr;
  RestAnswer answer;
  std::size_t read = 0;
  bool too_long = false, refused = false;
  os::Guard guard = os::Guard::Anyone;
  bool is_connected = false;  // the socket that was opened last

  static curl_socket_t open(void* target, curlsocktype, curl_sockaddr* address) {
    auto& self = *static_cast<Transfer*>(target);
    auto made = os::open_socket(self.guard, &address->addr, address->addrlen, address->socktype,
                                address->protocol);
    self.distrust = std::move(made.distrust);
    self.is_connected = made.connected;
    self.socket = made.socket.release();
    self.conversation.add(self.socket, self.limit_of_time + os::kOverdue);
    return self.socket;  // none: CURL_SOCKET_BAD
  }
  static int connected(void* target, curl_socket_t, curlsocktype) {
    return static_cast<Transfer*>(target)->is_connected ? CURL_SOCKOPT_ALREADY_CONNECTED
                                                        : CURL_SOCKOPT_OK;
  }

  // Connected, and nothing is sent yet.
  static int look(void* target, char*, char*, int, int) {
    auto& self = *static_cast<Transfer*>(target);
    if (!self.path.empty()) self.distrust = why_not_trusted(self.socket, self.path);
    return self.distrust.empty() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
  }

  static std::size_t receive(char* data, std::size_t size, std::size_t count, void* target) {
    auto& self = *static_cast<Transfer*>(target);
    const std::size_t bytes = size * count;
    long status = 0;
    curl_easy_getinfo(self.easy, CURLINFO_RESPONSE_CODE, &status);
    const bool streamed = status == 200 && *self.take;
    self.read += bytes;
    self.too_long = self.read > (streamed ? kLongestStream : kLongestBody);
    if (self.too_long) return 0;
    if (!streamed) {
      self.answer.body.append(data, bytes);
      return bytes;
    }
    self.refused = !(*self.take)({data, bytes});
    return self.refused ? 0 : bytes;
  }
};

void add_header(Headers& headers, const std::string& line) {
  headers.reset(curl_slist_append(headers.release(), line.c_str()));
}

std::string unbase64(std::string_view text) {
  std::string out;
  unsigned bits = 0, value = 0;
  for (const char c : text) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) return "";
    value = (value << 6 | static_cast<unsigned>(digit)) & 0xffffu;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>(value >> bits & 0xffu);
  }
  return out;
}

// Everything but headers and certificates.
void prepare(Transfer& transfer, const RestRequest& request, const std::string& base) {
  CURL* easy = transfer.easy;
  if (!transfer.path.empty())
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, transfer.path.c_str());
  if (!base.starts_with("https:")) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  transfer.limit_of_time = request.limit;
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(request.limit).count();
  curl_easy_setopt(easy, CURLOPT_URL, (base + request.path).c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "stoker/" STOKER_VERSION);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(limit));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &Transfer::open);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &Transfer::connected);
  curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &Transfer::look);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, &transfer);
  transfer.conversation.guard(easy);
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!request.body.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
  }
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::receive);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
}

RestAnswer perform(Transfer& transfer) {
  const CURLcode code = curl_easy_perform(transfer.easy);
  RestAnswer answer = std::move(transfer.answer);
  long sent = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &answer.status);
  curl_easy_getinfo(transfer.easy, CURLINFO_REQUEST_SIZE, &sent);
  answer.reached = sent > 0;
  if (!transfer.distrust.empty()) return unreached(std::move(transfer.distrust));
  if (transfer.too_long)
    answer.error = "the answer is longer than what is read";
  else if (code != CURLE_OK && !transfer.refused)
    answer.error = curl_easy_strerror(code);
  return answer;
}

}  // namespace

Result<std::string> read_token(const std::string& file) {
  constexpr std::string_view kPrinted = "SLURM_JWT=";
  STOKER_TRY(text, os::read_secret(file));
  return text.starts_with(kPrinted) ? text.substr(kPrinted.size()) : text;
}

std::optional<WallTime> token_ends(std::string_view token) {
  const auto first = token.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const auto second = token.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto claims = parse_json(unbase64(token.substr(first + 1, second - first - 1)), "a token");
  if (!claims || !claims->is_object()) return std::nullopt;
  const auto ends = claims->find("exp");
  if (ends == claims->end() || !ends->is_number_integer()) return std::nullopt;
  const auto seconds = ends->get<std::int64_t>();
  if (seconds <= 0 || seconds > 9'000'000'000) return std::nullopt;
  return WallTime(std::chrono::seconds(seconds));
}

RestAnswer HttpDoor::ask(const RestRequest& request, const Take& take) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  if (const Status usable = core::check_rest_url(access_); !usable)
    return unreached(usable.error().message());
  Headers headers(nullptr, &curl_slist_free_all);
  add_header(headers, "Accept: application/json");
  add_header(headers, "Expect:");
  std::optional<WallTime> ends;
  if (!access_.token_file.empty()) {
    const auto token = read_token(access_.token_file);
    if (!token) return unreached(token.error().message());
    ends = token_ends(*token);
    add_header(headers, "X-SLURM-USER-NAME: " + user_);
    add_header(headers, "X-SLURM-USER-TOKEN: " + *token);
  }
  if (!request.body.empty()) add_header(headers, "Content-Type: application/json");
  if (!access_.ca_file.empty())
    if (const Status own = os::check_own_target(access_.ca_file); !own)
      return unreached(own.error().message());
  const bool socket = access_.url.starts_with(core::kUnixUrl);
  const std::string path = socket ? access_.url.substr(core::kUnixUrl.size()) : "";
  if (socket)
    if (std::string why = why_no_socket(path); !why.empty()) return unreached(std::move(why));

  Transfer transfer;  // outlives the handle, whose end may still read from the connection
  const Handle handle(curl_easy_init(), &curl_easy_cleanup);
  if (!handle) return unreached("libcurl cannot begin");
  transfer.easy = handle.get();
  transfer.take = &take;
  transfer.path = path;
  // A token in clear text
  if (!access_.token_file.empty() && !access_.insecure && access_.url.starts_with("http://"))
    transfer.guard = os::Guard::OnlyHere;
  if (access_.url.starts_with("https://")) transfer.guard = os::guard_of_proxy();
  prepare(transfer, request, socket ? "http://localhost" : access_.url);
  curl_easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, headers.get());
  if (!access_.ca_file.empty())
    curl_easy_setopt(transfer.easy, CURLOPT_CAINFO, access_.ca_file.c_str());
  RestAnswer answer = perform(transfer);
  if ((answer.status >= 400 || answer.status == 0) && ends && *ends <= wall_now())
    answer.error =
        fmt::format("the token of {} has expired at {}", access_.token_file, format_rfc3339(*ends));
  return answer;
}

}  // namespace stoker::slurm
