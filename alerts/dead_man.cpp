// One thread performs the calls, so that a receiver that hangs holds nothing up.
#include "alerts/dead_man.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <random>
#include <utility>

#include "alerts/secret.hpp"
#include "alerts/url.hpp"

namespace stoker::alerts {
namespace {

constexpr Duration kAgainAfter = 30s;
constexpr Duration kCallLimit = 10s;
constexpr std::size_t kLongestFinding = 10'000;  // what old receivers keep

const char* suffix_of(DeadManCall call) {
  switch (call) {
    case DeadManCall::Start: return "/start";
    case DeadManCall::Fail: return "/fail";
    case DeadManCall::None:
    case DeadManCall::Alive: return "";
  }
  return "";
}

// A random UUID (RFC 4122, version 4).
std::string new_id() {
  std::random_device device;
  const auto word = [&device] { return static_cast<std::uint32_t>(device()); };
  const std::uint32_t a = word(), b = word(), c = word(), d = word();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{:08x}", a, b >> 16, b & 0xFFF,
                     0x8000 | (c >> 16 & 0x3FFF), c & 0xFFFF, d);
}

Result<HttpRequest> request_of(const std::string& url_file, DeadManCall call,
                               const std::string& finding, const std::string& id) {
  STOKER_TRY(text, read_secret(url_file));
  const auto url = parse_url(text);
  if (!url || (url->scheme != "https" && url->scheme != "http"))
    return fail("the URL is neither http nor https", url_file);
  if (url->scheme == "http" && !url->loopback())
    return fail("the URL is a secret, and http would send it readably", url_file, "use https");
  HttpRequest request;
  request.url = dead_man_url(text, call, id);
  request.body = finding.substr(0, kLongestFinding);
  request.headers.emplace_back("Content-Type: text/plain; charset=utf-8");
  request.timeout = kCallLimit;
  request.secrets = {text, url->path};
  if (url->scheme == "http") request.guard = os::Guard::OnlyHere;
  return request;
}

}  // namespace

DeadManCall next_call(DeadManState& state, bool observed, Duration every, Instant now) {
  if (now < state.try_again) return DeadManCall::None;
  if (!state.started) {
    state.started = now;
    return DeadManCall::Start;
  }
  const bool changed = !state.called || state.failing == observed;
  if (!changed && now - *state.called < every) return DeadManCall::None;
  state.called = now;
  state.failing = !observed;
  return observed ? DeadManCall::Alive : DeadManCall::Fail;
}

void call_failed(DeadManState& state, Duration every, Instant now) {
  state.try_again = now + std::min(every, kAgainAfter);
  state.called.reset();
}

std::string dead_man_url(const std::string& url, DeadManCall call, const std::string& id) {
  const std::size_t query = std::min(url.find('?'), url.size());
  std::string path = url.substr(0, query);
  if (call != DeadManCall::Alive && path.ends_with('/')) path.pop_back();
  path += suffix_of(call);
  path += query == url.size() ? "?" : url.substr(query) + "&";
  return path + "rid=" + id;
}

DeadMan::DeadMan() : id_(new_id()), thread_([this] { run(); }) {}

DeadMan::~DeadMan() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_all();
  courier_.wake();
  thread_.join();
}

void DeadMan::passed(const std::vector<ObservedRun>& runs, Instant now) {
  const std::lock_guard lock(mutex_);
  for (const ObservedRun& run : runs) {
    if (run.policy.dead_man_url_file.empty()) continue;
    const Duration every = run.policy.dead_man_every;
    const bool observed = run.trouble.empty();
    for (;;) {  // Start is followed by what is the case
      const DeadManCall call = next_call(states_[run.run], observed, every, now);
      if (call == DeadManCall::None) break;
      waiting_.push_back({run.run, call, every, run.policy.dead_man_url_file,
                          observed ? run.finding : run.trouble + "\n" + run.finding});
    }
  }
  if (waiting_.empty()) return;
  news_.notify_all();
  courier_.wake();
}

bool DeadMan::wait_idle(Duration limit) {
  std::unique_lock lock(mutex_);
  return news_.wait_for(lock, limit, [this] { return waiting_.empty() && under_way_.empty(); });
}

std::optional<DeadMan::Trouble> DeadMan::trouble(const RunName& run) const {
  const std::lock_guard lock(mutex_);
  const auto found = troubles_.find(run);
  return found == troubles_.end() ? std::nullopt : std::optional(found->second);
}

// Under the lock. A receiver that knows no /start is a plain one: only what is called while all is
// well must arrive.
void DeadMan::settle(const Waiting& waiting, const std::string& why) {
  if (waiting.call != DeadManCall::Alive) return;
  if (why.empty()) {
    troubles_.erase(waiting.run);
    return;
  }
  call_failed(states_[waiting.run], waiting.every, monotonic_now());
  Trouble& trouble = troubles_.try_emplace(waiting.run, Trouble{wall_now(), "", 0}).first->second;
  trouble.why = why;
  ++trouble.failures;
}

// Under the lock. The calls of one run arrive in order: one at a time.
void DeadMan::compose_waiting() {
  std::vector<Waiting> later;
  for (Waiting& next : waiting_) {
    const bool busy = std::any_of(under_way_.begin(), under_way_.end(),
                                  [&](const auto& pair) { return pair.second.run == next.run; });
    if (busy) {
      later.push_back(std::move(next));
      continue;
    }
    composed_.start(next_, next.url_file.substr(0, next.url_file.rfind('/')), kCallLimit,
                    [file = next.url_file, call = next.call, finding = next.finding, id = id_] {
                      return request_of(file, call, finding, id);
                    });
    under_way_[next_++] = std::move(next);
  }
  waiting_ = std::move(later);
}

// Under the lock.
void DeadMan::send_composed() {
  for (auto& [id, request] : composed_.collect()) {
    if (request) {
      courier_.start(id, *request);
      continue;
    }
    settle(under_way_.at(id), request.error().message());
    under_way_.erase(id);
  }
}

void DeadMan::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    compose_waiting();
    send_composed();
    news_.notify_all();
    if (under_way_.empty()) news_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    if (under_way_.empty()) continue;
    lock.unlock();
    const auto answers = courier_.wait(composed_.patience(kCallLimit));
    lock.lock();
    for (const auto& [id, answer] : answers) {
      const auto found = under_way_.find(id);
      if (found == under_way_.end()) continue;
      const bool good = answer.status >= 200 && answer.status < 300;
      settle(found->second, good                    ? ""
                            : !answer.error.empty() ? answer.error
                                                    : fmt::format("HTTP {}", answer.status));
      under_way_.erase(found);
    }
  }
}

}  // namespace stoker::alerts
