// An outbox in a folder of its own, with small policies and alerts.
#pragma once

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <functional>
#include <sys/wait.h>
#include <thread>

#include "alerts/outbox.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts::testing {

class Site {
 public:
  Site() {
    std::string name = (std::filesystem::temp_directory_path() / "stoker-alerts-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Site() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  [[nodiscard]] OutboxOptions options() const {
    OutboxOptions o;
    o.directory = path + "/outbox";
    o.pulse_path = path + "/pulse.log";
    o.first_pause = 20ms;
    o.longest_pause = 100ms;
    return o;
  }
  [[nodiscard]] std::unique_ptr<OutboxAlerts> open() const {
    auto outbox = OutboxAlerts::open(options());
    REQUIRE(outbox.has_value());
    return std::move(*outbox);
  }
  [[nodiscard]] std::string pulse() const {
    return os::read_file(path + "/pulse.log").value_or(std::string{});
  }
  std::string path;
};

inline core::AlertPolicy policy_of(const std::string& url, const std::string& timeout = "2s") {
  core::AlertPolicy policy;
  policy.sinks = {{"hook", "webhook", {{"url", url}, {"timeout", timeout}}}};
  policy.routes = {{core::Severity::Warning, {}, {"hook"}, 1h, {}}};
  return policy;
}

inline core::SendAlert alert_of(const std::string& id,
                                core::Severity severity = core::Severity::Critical,
                                bool resolved = false) {
  core::SendAlert alert;
  alert.id = id;
  alert.severity = severity;
  alert.alert_kind = "rank_crash";
  alert.summary = "rank 3 crashed";
  alert.reason = "rank 3 on n02 ended with signal 11 at iteration 120";
  alert.command = resolved ? "" : "stoker why hello";
  alert.resolved = resolved;
  alert.labels = {{"run", "hello"}, {"node", "n02"}};
  return alert;
}

inline std::size_t count_of(const std::string& text, const std::string& needle) {
  std::size_t count = 0;
  for (auto at = text.find(needle); at != std::string::npos; at = text.find(needle, at + 1))
    ++count;
  return count;
}

inline bool becomes(const std::function<bool()>& condition, Duration patience = 5s) {
  for (const Instant end = monotonic_now() + patience; monotonic_now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return condition();
}

// In a process of its own: `accept` gives the outbox that has accepted an alert (null: it refused);
// the process lives that much longer and is killed.
template <class Accept>
void accept_and_be_killed(const Accept& accept, std::chrono::milliseconds lives = {}) {
  int ready[2];  // NOLINT
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto outbox = accept();
    (void)!::write(ready[1], outbox ? "y" : "n", 1);
    ::pause();
    ::_exit(1);
  }
  ::close(ready[1]);
  char word = 0;
  REQUIRE(::read(ready[0], &word, 1) == 1);
  ::close(ready[0]);
  CHECK(word == 'y');
  std::this_thread::sleep_for(lives);
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}

}  // namespace stoker::alerts::testing
