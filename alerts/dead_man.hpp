// DeadMan: for each run with alerts.dead_man, calls a URL while the daemon observes that run. The
// receiver (Healthchecks, or anything else that misses a call) raises the alarm when the calls
// stop: it is the one alert that a daemon which was killed, frozen or cut off can still cause.
// Calls: URL/start once, URL while all is well, URL/fail as soon as it is not, each as a POST with
// the last finding as its body and ?rid=, an id of this daemon's life.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "alerts/courier.hpp"
#include "core/policy.hpp"

namespace stoker::alerts {

enum class DeadManCall { None, Start, Alive, Fail };

// What was sent for one run's switch. Pure.
struct DeadManState {
  std::optional<Instant> started, called;  // called: Alive or Fail, whichever was last
  bool failing = false;                    // what it was called with
  Instant try_again;                       // after a call that did not arrive
};
// What to call after a pass, at `now`: Start first; Alive and Fail when they change, and every
// `every`. A call that did not arrive is made again after at most 30 s.
DeadManCall next_call(DeadManState& state, bool observed, Duration every, Instant now);
// The last Alive did not arrive.
void call_failed(DeadManState& state, Duration every, Instant now);

// "https://host/ping/uuid?x=1" with "/fail" and an id: "https://host/ping/uuid/fail?x=1&rid=ID".
std::string dead_man_url(const std::string& url, DeadManCall call, const std::string& id);

struct ObservedRun {
  RunName run;
  core::AlertPolicy policy;  // its dead_man_*; without a URL file it is skipped
  std::string trouble;       // "" = it is observed
  std::string finding;       // one line about the run
};

class DeadMan {
 public:
  DeadMan();
  ~DeadMan();  // calls under way are given up
  DeadMan(const DeadMan&) = delete;
  DeadMan& operator=(const DeadMan&) = delete;

  // To be called after each complete pass, and only then. Returns at once.
  void passed(const std::vector<ObservedRun>& runs, Instant now);
  // True: no call waits or is under way any more before `limit` has passed.
  bool wait_idle(Duration limit);

  struct Trouble {
    WallTime since;
    std::string why;
    std::uint32_t failures = 0;
  };
  // Why the calls of this run do not arrive; empty = they do.
  [[nodiscard]] std::optional<Trouble> trouble(const RunName& run) const;

 private:
  struct Waiting {
    RunName run;
    DeadManCall call = DeadManCall::None;
    Duration every{};
    std::string url_file, finding;
  };
  void run();
  void settle(const Waiting& waiting, const std::string& why);
  void compose_waiting();
  void send_composed();

  const std::string id_;
  Courier courier_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::map<RunName, DeadManState> states_;
  std::map<RunName, Trouble> troubles_;
  std::vector<Waiting> waiting_;
  Lanes<HttpRequest> composed_{[this] { courier_.wake(); }};  // by the folder of url_file
  std::map<std::uint64_t, Waiting> under_way_;                // being composed or called
  std::uint64_t next_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace stoker::alerts
