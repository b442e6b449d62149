// Adapter to libcurl; its handles live here only.
#include "alerts/http_sender.hpp"

#include <algorithm>
#include <curl/curl.h>
#include <mutex>
#include <sys/socket.h>

namespace stoker::alerts {

namespace {

constexpr std::size_t kKeptOfAnswer = 1024;
constexpr int kLongestWaitMs = 60'000;

void initialise_once() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

std::size_t keep_answer(char* data, std::size_t size, std::size_t count, void* target) {
  auto& kept = *static_cast<std::string*>(target);
  kept.append(data, std::min(size * count, kKeptOfAnswer - std::min(kKeptOfAnswer, kept.size())));
  return size * count;
}

curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

long milliseconds(Duration d) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(d).count());
}

}  // namespace

struct HttpSender::Transfer {
  std::uint64_t id = 0;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::string request_body, answer_body;
  ~Transfer() {
    if (easy != nullptr) curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }
};

struct HttpSender::Impl {
  CURLM* multi = nullptr;
  std::map<CURL*, std::unique_ptr<Transfer>> transfers;
};

HttpSender::HttpSender() : impl_(std::make_unique<Impl>()) {
  initialise_once();
  impl_->multi = curl_multi_init();
  STOKER_CHECK(impl_->multi != nullptr, "curl_multi_init");
}

HttpSender::~HttpSender() {
  for (auto& [easy, transfer] : impl_->transfers) curl_multi_remove_handle(impl_->multi, easy);
  impl_->transfers.clear();
  curl_multi_cleanup(impl_->multi);
}

void HttpSender::start(std::uint64_t id, const HttpRequest& request) {
  auto transfer = std::make_unique<Transfer>();
  transfer->id = id;
  transfer->easy = curl_easy_init();
  STOKER_CHECK(transfer->easy != nullptr, "curl_easy_init");
  transfer->request_body = request.body;
  for (const auto& header : request.headers)
    transfer->headers = curl_slist_append(transfer->headers, header.c_str());
  transfer->headers = curl_slist_append(transfer->headers, "Expect:");
  CURL* easy = transfer->easy;
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "stoker/" STOKER_VERSION);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer->request_body.c_str());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                   static_cast<curl_off_t>(transfer->request_body.size()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(request.timeout));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request.timeout));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep_answer);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer->answer_body);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_multi_add_handle(impl_->multi, easy);
  impl_->transfers.emplace(easy, std::move(transfer));
}

std::vector<std::pair<std::uint64_t, HttpAnswer>> HttpSender::wait(Duration timeout) {
  std::vector<std::pair<std::uint64_t, HttpAnswer>> answers;
  int running = 0;
  curl_multi_perform(impl_->multi, &running);
  if (running == static_cast<int>(impl_->transfers.size())) {  // nothing has ended yet
    const long wait_ms = std::clamp(milliseconds(timeout), 0L, long{kLongestWaitMs});
    curl_multi_poll(impl_->multi, nullptr, 0, static_cast<int>(wait_ms), nullptr);
    curl_multi_perform(impl_->multi, &running);
  }
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(impl_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* easy = message->easy_handle;
    const CURLcode code = message->data.result;
    const auto found = impl_->transfers.find(easy);
    HttpAnswer answer;
    if (code == CURLE_OK) {
      curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
      curl_off_t seconds = 0;
      if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK && seconds > 0)
        answer.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 1 << 30));
      answer.body = found->second->answer_body;
    } else {
      answer.error = curl_easy_strerror(code);
    }
    answers.emplace_back(found->second->id, std::move(answer));
    curl_multi_remove_handle(impl_->multi, easy);
    impl_->transfers.erase(found);
  }
  return answers;
}

void HttpSender::wake() {
  curl_multi_wakeup(impl_->multi);
}

std::size_t HttpSender::under_way() const {
  return impl_->transfers.size();
}

}  // namespace stoker::alerts
