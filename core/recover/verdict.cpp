// The verdict of the logs in the ladder: restart, restart without a node, or hold.
#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <map>

#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

// Of the attempt that runs or has just ended; causes of the scheduler are reported by the
// scheduler.
const Diagnosed* verdict_of(const RunState& run) {
  if (!run.recovery.verdict || !run.recovery.verdict->fatal ||
      run.recovery.verdict->confidence < kSure)
    return nullptr;
  if (run.live && run.recovery.verdict->generation.value != 0 &&
      (run.recovery.verdict->generation != run.live->generation ||
       (run.recovery.verdict->attempt.value != 0 &&
        run.recovery.verdict->attempt != run.live->attempt)))
    return nullptr;
  return &*run.recovery.verdict;
}

std::string verdict_text(const Diagnosed& d) {
  return fmt::format("the logs say: {}{}", d.summary,
                     d.evidence.empty() ? "" : fmt::format(" ({})", place_of(d.evidence.front())));
}

// A cause that every start meets again. One that a training has lived with for a while, or that is
// not certain, is given another start first.
// `counted`: this failure is in the budget already.
bool restart_meets_it(const RunState& run, const Diagnosed& d, std::uint32_t counted) {
  if (!explains(d, run.recovery.failed_signal)) return false;
  if (d.action != RunAction::Hold || d.failure_class == "slurm_cancelled") return false;
  const bool moved = run.live && run.health.progress.iteration > run.live->loaded;
  if (!moved && d.confidence >= kVerySure) return true;
  return run.recovery.failed_of == d.failure_class &&
         run.recovery.budget.without_progress > counted;
}

}  // namespace

bool explains(const Diagnosed& d, std::optional<int> signal) {
  if (d.from_kernel) return true;
  if (!signal) return false;
  static const std::map<std::string, int, std::less<>> kSignals{
      {"host_oom", SIGKILL}, {"shm_bus_error", SIGBUS}, {"segfault", SIGSEGV}};
  const auto own = kSignals.find(d.failure_class);
  return *signal == 0 || *signal == SIGABRT || (own != kSignals.end() && *signal == own->second);
}

std::string place_of(const std::string& evidence) {
  return evidence.substr(0, evidence.find(": "));
}

Failure with_verdict(const RunState& run, Failure failure) {
  const Diagnosed* d = verdict_of(run);
  if (d == nullptr || failure.free) return failure;
  failure.evidence += "; " + verdict_text(*d);
  const bool explained = explains(*d, failure.signal);
  if (!d->exclude.empty() && (explained || failure.nodes.empty())) {
    failure.nodes = d->exclude;
    failure.strong = explained;
  } else if (explained && failure.kind == "rank_crash" &&
             d->action != RunAction::RestartExcluding) {
    failure.nodes.clear();  // the program's fault speaks against no node
  }
  if (restart_meets_it(run, *d, 0)) failure.why_hold = d->advice;
  return failure;
}

Failure with_memory(RunState& run, Failure failure) {
  if (failure.words.empty() || failure.free) return failure;
  std::string words;
  for (const char c : failure.words)
    if (c < '0' || c > '9') words += c;
  const Iteration at = run.health.progress.iteration;
  const bool moved = run.live && at > run.live->loaded;
  constexpr std::uint64_t kNear = 2;  // iterations: a digest may miss the last ones
  const auto near = [&](Iteration before) {
    return std::max(at, before).value - std::min(at, before).value <= kNear;
  };
  if (run.recovery.crash && run.recovery.crash->words == words &&
      near(run.recovery.crash->iteration))
    ++run.recovery.crash->same;
  else
    run.recovery.crash = Crash{words, at, moved, 1};
  run.recovery.crash->moved = moved;
  const Diagnosed* d = verdict_of(run);
  const bool explained =
      d != nullptr && (d->action == RunAction::Restart || d->action == RunAction::RestartExcluding);
  if (run.recovery.crash->same < (moved ? 2u : 3u) || explained || !failure.why_hold.empty())
    return failure;
  failure.evidence += fmt::format(
      "; the same error at the same iteration {} times in a row: the cause is the configuration, "
      "the data or the program",
      run.recovery.crash->same);
  if (!failure.strong) failure.nodes.clear();
  failure.why_hold = "read the last lines of the rank's log and fix the cause";
  return failure;
}

void heed_late_verdict(Turn& turn) {
  RunState& run = turn.r();
  const auto* recovering = turn.in<training::Recovering>();
  const Diagnosed* d = verdict_of(run);
  if (recovering == nullptr || d == nullptr) return;
  if (restart_meets_it(run, *d, 1))
    return hold(turn, {"no_restart_helps", verdict_text(*d), d->advice, {}});
  run.recovery.failed_of = d->failure_class;
  if (d->exclude.empty() || !explains(*d, run.recovery.failed_signal) ||
      recovering->rung != training::Rung::InAllocation || !run.live)
    return;
  const auto without = unusable_inside(turn, d->exclude);
  if (without == run.asked.control.exclude) return;
  run.asked.control.exclude = without;
  const std::string sentence = fmt::format("restarting without {}", nodes_text(without));
  turn.say(sentence);
  write_control(turn, sentence);
}

}  // namespace stoker::core
