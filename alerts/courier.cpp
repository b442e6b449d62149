// Adapter to libcurl; its handles live here only.
#include "alerts/courier.hpp"

#include <algorithm>
#include <cstring>
#include <curl/curl.h>
#include <fmt/format.h>
#include <mutex>
#include <sys/socket.h>

#include "alerts/secret.hpp"
#include "common/os/conversation_limit.hpp"
#include "common/os/files.hpp"
#include "common/os/listener.hpp"
#include "common/os/socket_deadline.hpp"
#include "common/overloaded.hpp"

namespace stoker::alerts {

namespace {

constexpr std::size_t kKeptOfAnswer = 1024;
constexpr std::size_t kKeptOfReplies = 16u << 10;  // SMTP: one a recipient
constexpr std::size_t kMostRead = 256u << 10;      // then the answer is cut off
constexpr int kLongestWaitMs = 60'000;

void initialise_once() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

long milliseconds(Duration d) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(d).count());
}

}  // namespace

struct Courier::Transfer {
  std::uint64_t id = 0;
  CURL* easy = curl_easy_init();
  curl_slist* headers = nullptr;
  curl_slist* recipients = nullptr;
  std::string sent, kept;
  std::size_t at = 0, limit = kKeptOfAnswer, read = 0;
  bool cut_off = false;
  std::vector<std::string> secrets;
  os::Guard guard = os::Guard::Anyone;
  bool by_proxy = false;      // the guard is of a proxy of this host, which would get a password
  bool is_connected = false;  // the socket that was opened last
  Duration limit_of_time{};
  os::ConversationLimit conversation;
  std::string distrust;
  char detail[CURL_ERROR_SIZE] = "";  // NOLINT

  Transfer() { STOKER_CHECK(easy != nullptr, "curl_easy_init"); }
  ~Transfer() {
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    curl_slist_free_all(recipients);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Keeps the beginning; after kMostRead the transfer is ended.
  static std::size_t keep(char* data, std::size_t size, std::size_t count, void* target) {
    auto& self = *static_cast<Transfer*>(target);
    const std::size_t n = size * count;
    self.kept.append(data, std::min(n, self.limit - std::min(self.limit, self.kept.size())));
    self.read += n;
    self.cut_off = self.read > kMostRead;
    return self.cut_off ? 0 : n;
  }
  static std::size_t give(char* data, std::size_t size, std::size_t count, void* source) {
    auto& self = *static_cast<Transfer*>(source);
    const std::size_t n = std::min(size * count, self.sent.size() - self.at);
    std::memcpy(data, self.sent.data() + self.at, n);
    self.at += n;
    return n;
  }

  [[nodiscard]] bool is_mail() const { return limit == kKeptOfReplies; }
  static curl_socket_t open(void* target, curlsocktype, curl_sockaddr* address) {
    auto& self = *static_cast<Transfer*>(target);
    auto made = os::open_socket(self.guard, &address->addr, address->addrlen, address->socktype,
                                address->protocol);
    self.distrust = std::move(made.distrust);
    self.is_connected = made.connected;
    self.conversation.add(made.socket.get(), self.limit_of_time + os::kOverdue);
    return made.socket.release();  // none: CURL_SOCKET_BAD
  }
  static int connected(void* target, curl_socket_t, curlsocktype) {
    return static_cast<Transfer*>(target)->is_connected ? CURL_SOCKOPT_ALREADY_CONNECTED
                                                        : CURL_SOCKOPT_OK;
  }

  void prepare(const std::string& url, Duration timeout, const std::string& authorities) {
    limit_of_time = timeout;
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    conversation.guard(easy);  // a kept connection may be another user's by now
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(timeout));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(timeout));
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &Transfer::open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, this);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &Transfer::connected);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, this);
    by_proxy = guard == os::Guard::Anyone && !url.starts_with("http://") &&
               os::guard_of_proxy() != os::Guard::Anyone;
    if (by_proxy) guard = os::guard_of_proxy();
    if (guard == os::Guard::OnlyHere) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    if (authorities.empty()) return;
    curl_blob blob{const_cast<char*>(authorities.data()), authorities.size(), CURL_BLOB_COPY};
    curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
  }

  Answer answer(CURLcode code) const {
    Answer answer;
    // What follows the status of an HTTP answer does not matter; a mail was not taken by then.
    const bool enough = code == CURLE_OK || (cut_off && !is_mail());
    if (enough || is_mail()) curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
    if (!enough) {
      answer.error =
          cut_off ? "the server's answers are longer than what is read" : curl_easy_strerror(code);
      const bool tls = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ||
                       code == CURLE_SSL_CACERT_BADFILE;
      if (tls && detail[0] != '\0') answer.error += std::string(": ") + detail;
      answer.error = masked(answer.error, secrets);
    }
    if (code != CURLE_OK && !distrust.empty())
      answer.error = distrust + (by_proxy ? "; https_proxy or all_proxy names it, with a password"
                                          : "; insecure: true sends it all the same");
    curl_off_t seconds = 0;
    if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0)
      answer.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 1 << 30));
    answer.body = masked(kept, secrets);
    return answer;
  }
};

struct Courier::Impl {
  CURLM* multi = nullptr;
  std::map<CURL*, std::shared_ptr<Transfer>> transfers;
};

Courier::Courier()
    : impl_(std::make_unique<Impl>()),
      files_(std::make_unique<Lanes<bool>>([this] { wake(); })),
      apart_(std::make_unique<Lanes<Answer>>([this] { wake(); })) {
  initialise_once();
  impl_->multi = curl_multi_init();
  STOKER_CHECK(impl_->multi != nullptr, "curl_multi_init");
  curl_multi_setopt(impl_->multi, CURLMOPT_PIPELINING, long{CURLPIPE_NOTHING});
}

Courier::~Courier() {
  files_.reset();  // their threads wake what is ended here
  apart_.reset();
  for (auto& [easy, transfer] : impl_->transfers) curl_multi_remove_handle(impl_->multi, easy);
  impl_->transfers.clear();
  curl_multi_cleanup(impl_->multi);
}

void Courier::start(std::uint64_t id, const Request& request) {
  const auto at_once = [&](const Status& status) {
    Answer answer;
    if (!status) answer.error = status.error().message();
    ready_.emplace_back(id, std::move(answer));
  };
  std::visit(
      Overloaded{[&](const HttpRequest& r) { send(id, r); },
                 [&](const MailRequest& r) { send(id, r); },
                 [&](const ExecRequest& r) {
                   if (const auto started = commands_.start(id, r); !started) at_once(started);
                 },
                 [&](const AppendRequest& r) {
                   files_->start(id, r.path, r.timeout, [r]() -> Result<bool> {
                     STOKER_TRY_STATUS(os::append_file(r.path, r.line, os::Durability::Synced));
                     return true;
                   });
                 }},
      request);
}

void Courier::send(std::uint64_t id, const HttpRequest& request) {
  const auto transfer = std::make_shared<Transfer>();
  CURL* easy = transfer->easy;
  transfer->id = id;
  transfer->sent = request.body;
  transfer->secrets = request.secrets;
  transfer->guard = request.guard;
  for (const auto& header : request.headers)
    transfer->headers = curl_slist_append(transfer->headers, header.c_str());
  transfer->headers = curl_slist_append(transfer->headers, "Expect:");
  transfer->prepare(request.url, request.timeout, request.authorities);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "stoker/" STOKER_VERSION);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer->sent.c_str());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                   static_cast<curl_off_t>(transfer->sent.size()));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::keep);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
  // Who listens is asked of the kernel by a connection, which a stranger can let wait.
  if (transfer->guard != os::Guard::Anyone) return perform_apart(id, transfer, request.timeout);
  curl_multi_add_handle(impl_->multi, easy);
  impl_->transfers.emplace(easy, transfer);
}

void Courier::send(std::uint64_t id, const MailRequest& request) {
  const auto transfer = std::make_shared<Transfer>();
  CURL* easy = transfer->easy;
  transfer->id = id;
  transfer->sent = request.message;
  transfer->secrets = request.secrets;
  transfer->guard = request.guard;
  transfer->limit = kKeptOfReplies;
  for (const auto& to : request.to)
    transfer->recipients = curl_slist_append(transfer->recipients, ("<" + to + ">").c_str());
  transfer->prepare(request.url, request.timeout, request.authorities);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
  curl_easy_setopt(easy, CURLOPT_USE_SSL,
                   static_cast<long>(request.starttls ? CURLUSESSL_ALL : CURLUSESSL_NONE));
  curl_easy_setopt(easy, CURLOPT_MAIL_FROM, ("<" + request.from + ">").c_str());
  curl_easy_setopt(easy, CURLOPT_MAIL_RCPT, transfer->recipients);
  curl_easy_setopt(easy, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L);  // the others get theirs
  if (!request.user.empty()) {
    curl_easy_setopt(easy, CURLOPT_USERNAME, request.user.c_str());
    curl_easy_setopt(easy, CURLOPT_PASSWORD, request.password.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Transfer::give);
  curl_easy_setopt(easy, CURLOPT_READDATA, transfer.get());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::keep);  // the server's replies
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer.get());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::keep);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
  perform_apart(id, transfer, request.timeout);
}

void Courier::perform_apart(std::uint64_t id, const std::shared_ptr<Transfer>& transfer,
                            Duration timeout) {
  // Behind libcurl's own limits, and behind the end of the socket.
  apart_->start(id, fmt::format("request {}", id), timeout + 4 * os::kOverdue,
                [transfer]() -> Result<Answer> {
                  return transfer->answer(curl_easy_perform(transfer->easy));
                });
}

void Courier::poll(Duration timeout) {
  std::vector<curl_waitfd> extra;
  for (const int fd : commands_.descriptors()) extra.push_back({fd, CURL_WAIT_POLLIN, 0});
  const Duration most = apart_->patience(files_->patience(commands_.patience(timeout)));
  const long ms = std::clamp(milliseconds(most), 0L, long{kLongestWaitMs});
  curl_multi_poll(impl_->multi, extra.empty() ? nullptr : extra.data(),
                  static_cast<unsigned>(extra.size()), static_cast<int>(ms), nullptr);
}

std::vector<std::pair<std::uint64_t, Answer>> Courier::wait(Duration timeout) {
  auto answers = std::exchange(ready_, {});
  int running = 0;
  curl_multi_perform(impl_->multi, &running);
  if (answers.empty() && running == static_cast<int>(impl_->transfers.size())) {
    poll(timeout);
    curl_multi_perform(impl_->multi, &running);
  }
  for (auto& answer : commands_.collect()) answers.push_back(std::move(answer));
  for (auto& [id, written] : files_->collect()) {
    Answer answer;
    if (!written) answer.error = written.error().message();
    answers.emplace_back(id, std::move(answer));
  }
  for (auto& [id, sent] : apart_->collect()) {
    Answer answer;
    if (sent)
      answer = *std::move(sent);
    else
      answer.error = sent.error().what;
    answers.emplace_back(id, std::move(answer));
  }
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(impl_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* easy = message->easy_handle;
    const auto found = impl_->transfers.find(easy);
    answers.emplace_back(found->second->id, found->second->answer(message->data.result));
    curl_multi_remove_handle(impl_->multi, easy);
    impl_->transfers.erase(found);
  }
  return answers;
}

void Courier::wake() {
  curl_multi_wakeup(impl_->multi);
}

std::size_t Courier::under_way() const {
  return impl_->transfers.size() + commands_.under_way() + files_->under_way() +
         apart_->under_way() + ready_.size();
}

}  // namespace stoker::alerts
