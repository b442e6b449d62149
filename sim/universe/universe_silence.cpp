// Universe: what the daemon's watchers report when nothing comes: the lead agent writes no line, or
// the run directory does not answer.
#include "sim/universe/universe.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kSilences[] = {30s, 2min, 10min, 1h};  // watch: LeadFile
constexpr Duration kStuck = 20s;                          // daemon/loop/daemon_stuck.cpp

}  // namespace

// While it hangs, nothing else of the run is read. A daemon that was restarted meanwhile finds out
// again.
bool Universe::tell_hang(const core::RunState& run) {
  const bool hangs = storage_free_ > time_.now();
  const bool known = run.conditions.unread_since.has_value();
  if (hangs != known && (known || time_.now() - stalled_at_ >= kStuck))
    daemon_->feed({told_policy_.run,
                   core::FolderSilent{"the run directory /runs/sim", kStuck, true, hangs, true},
                   {}});
  return hangs;
}

// No new line for long: the lead's process beats each second, so that it is gone, or unseen.
void Universe::watch_silence() {
  time_.after(10s, [this] {
    watch_silence();
    SimGeneration* g = training_->live();
    const bool beats = g != nullptr && !g->stand.since && lines_from_ <= time_.now() &&
                       storage_free_ <= time_.now();
    if (beats) heard_ = time_.now();
    if (!daemon_->up() || daemon_->asleep() || training_->all().empty()) return;
    const auto& newest = training_->all().rbegin()->second;
    const auto run = daemon_->state().runs.find(told_policy_.run);
    if (run == daemon_->state().runs.end() || tell_hang(run->second) || !run->second.live ||
        run->second.live->goodbye_at || run->second.live->generation != newest.number)
      return;
    if (beats) {
      if (silent_told_) daemon_->feed({told_policy_.run, core::LeadSpeaks{newest.number}, {}});
      silent_told_ = false;
      return;
    }
    const Duration age = time_.now() - heard_;
    for (const Duration threshold : kSilences)
      if (age >= threshold && age < threshold + 10s) {
        silent_told_ = true;
        daemon_->feed({told_policy_.run, core::LeadSilent{newest.number, age}, {}});
      }
  });
}

}  // namespace stoker::sim
