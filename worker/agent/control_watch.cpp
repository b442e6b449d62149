// The thread of control.json and the thread of switch/.
#include "worker/agent/control_watch.hpp"

#include <fmt/format.h>
#include <mutex>
#include <poll.h>
#include <set>
#include <sys/inotify.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "watch/daily_budget.hpp"
#include "worker/agent/aside.hpp"
#include "worker/agent/switch_patience.hpp"
#include "worker/agent/switch_process.hpp"

namespace stoker::agent {
namespace {

constexpr int kPollMs = 200;
constexpr std::size_t kMostNotices = 10;  // of refused switch files, in a window
constexpr Duration kNoticeWindow = 1min;
constexpr std::size_t kMostRemembered = 1000;
constexpr Duration kStuckAgain = 1h;  // between two notices of a look that does not end

// What both threads know.
struct Shared {
  std::string run_directory;
  ControlSink sink;
  std::shared_ptr<std::atomic<bool>> stop;
  std::mutex mutex;
  std::optional<Instant> looking_since;  // at switch/

  void set_looking(std::optional<Instant> since) {
    const std::lock_guard lock(mutex);
    looking_since = since;
  }
  std::optional<Instant> looking() {
    const std::lock_guard lock(mutex);
    return looking_since;
  }
};

class ControlThread {
 public:
  ControlThread(std::shared_ptr<Shared> shared, Duration stuck_after)
      : shared_(std::move(shared)), stuck_after_(stuck_after) {}

  void run() {
    const os::Fd hints(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    constexpr auto kMask = IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE;
    ::inotify_add_watch(hints.get(), shared_->run_directory.c_str(), kMask);
    while (!*shared_->stop) {
      look_at_control();
      look_at_look(monotonic_now());
      pollfd p{hints.get(), POLLIN, 0};
      if (::poll(&p, 1, kPollMs) > 0) {
        char drop[4096];
        while (::read(hints.get(), drop, sizeof drop) > 0) continue;
      }
    }
  }

 private:
  void look_at_control() {
    const auto control = read_control(shared_->run_directory);
    if (!control) {
      if (last_error_ != control.error().message()) shared_->sink.notice(control.error().message());
      last_error_ = control.error().message();
      return;
    }
    last_error_.clear();
    if (!*control || *control == last_) return;
    last_ = *control;
    shared_->sink.control(**control);
  }

  void look_at_look(Instant now) {
    const auto since = shared_->looking();
    if (!since || now - *since < stuck_after_ || (said_ && now - *said_ < kStuckAgain)) return;
    said_ = now;
    shared_->sink.notice(fmt::format(
        "{}/switch: the folder has not answered for {} s: a hung file system, or a member of its "
        "group has locked it; until it answers no switch file is obeyed here, control.json is",
        shared_->run_directory, (now - *since) / 1s));
  }

  std::shared_ptr<Shared> shared_;
  Duration stuck_after_;
  std::optional<wire::Control> last_;
  std::string last_error_;
  std::optional<Instant> said_;
};

class SwitchThread {
 public:
  SwitchThread(std::shared_ptr<Shared> shared, LookAtSwitches look)
      : shared_(std::move(shared)), look_(std::move(look)) {}

  void run() {
    while (!*shared_->stop) {
      shared_->set_looking(monotonic_now());
      const auto look = look_(shared_->run_directory);
      shared_->set_looking(std::nullopt);
      if (*shared_->stop) return;
      take(look, monotonic_now());
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
    }
  }

 private:
  void take(const Result<SwitchLook>& look, Instant now) {
    if (!look) return refuse(look.error().message(), now);
    for (const SwitchRefused& file : look->refused) refuse(file.why, now);
    for (const SwitchSeen& file : patience_.due(look->seen, now)) {
      if (file.verb == "save")  // kill and stop end the run
        if (const auto why = budget_.spend(file.owner, file.by, wall_now())) {
          refuse("switch file refused: " + *why, now);
          continue;
        }
      shared_->sink.left(file);
    }
  }

  // A member who changes a file all the time must not fill the journal.
  void refuse(const std::string& text, Instant now) {
    if (refused_.contains(text)) return;
    if (now - window_ >= kNoticeWindow) {
      window_ = now;
      in_window_ = 0;
    }
    if (in_window_++ >= kMostNotices) return;
    if (refused_.size() >= kMostRemembered) refused_.clear();
    refused_.insert(text);
    shared_->sink.notice(text);
  }

  std::shared_ptr<Shared> shared_;
  LookAtSwitches look_;
  SwitchPatience patience_;
  watch::DailyBudget budget_;
  std::set<std::string> refused_;  // what was reported
  std::size_t in_window_ = 0;      // since `window_`
  Instant window_{};
};

Result<SwitchLook> look_in_process(const std::string& run_directory) {
  return SwitchProcess::of_agent().look(run_directory, std::nullopt);
}

}  // namespace

Result<std::optional<wire::Control>> read_control(const std::string& run_directory) {
  const std::string path = run_directory + "/control.json";
  STOKER_TRY(text, os::find_own_file(run_directory, "control.json", 1u << 20));
  if (!text) return std::optional<wire::Control>{};
  STOKER_TRY(control, from_json_text<wire::Control>(*text, path, {.bytes = 1u << 20, .depth = 16}));
  return std::optional<wire::Control>(control);
}

ControlWatch::ControlWatch(std::string run_directory, ControlSink sink, LookAtSwitches look,
                           Duration stuck_after)
    : stop_(std::make_shared<std::atomic<bool>>(false)) {
  const auto shared = std::make_shared<Shared>();
  shared->run_directory = std::move(run_directory);
  shared->sink = std::move(sink);
  shared->stop = stop_;
  if (!look) look = look_in_process;
  run_aside([watcher = ControlThread(shared, stuck_after)]() mutable { watcher.run(); });
  run_aside([watcher = SwitchThread(shared, std::move(look))]() mutable { watcher.run(); });
}

ControlWatch::~ControlWatch() {
  *stop_ = true;
}

}  // namespace stoker::agent
