// The verdict of the logs in the ladder: restart, restart without a node, or hold.
#include <fmt/format.h>

#include "core/command.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

// Of the attempt that runs or has just ended; causes of the scheduler are told by the scheduler.
const Diagnosed* verdict_of(const RunState& run) {
  if (!run.verdict || !run.verdict->fatal || run.verdict->confidence < kSure) return nullptr;
  if (run.live && run.verdict->generation.value != 0 &&
      (run.verdict->generation != run.live->generation ||
       (run.verdict->attempt.value != 0 && run.verdict->attempt != run.live->attempt)))
    return nullptr;
  return &*run.verdict;
}

std::string verdict_text(const Diagnosed& d) {
  return fmt::format("the logs say: {}{}", d.summary,
                     d.evidence.empty() ? "" : fmt::format(" ({})", place_of(d.evidence.front())));
}

// A cause that every start meets again. One that a training has lived with for a while, or that is
// not certain, is given another start first.
// `counted`: this failure is in the budget already.
bool restart_meets_it(const RunState& run, const Diagnosed& d, std::uint32_t counted) {
  if (d.action != "hold" || d.failure_class == "slurm_cancelled") return false;
  const bool moved = run.live && run.progress.iteration > run.live->loaded;
  if (!moved && d.confidence >= kVerySure) return true;
  return run.failed_of == d.failure_class && run.budget.without_progress > counted;
}

}  // namespace

std::string place_of(const std::string& evidence) {
  return evidence.substr(0, evidence.find(": "));
}

Failure with_verdict(const RunState& run, Failure failure) {
  const Diagnosed* d = verdict_of(run);
  if (d == nullptr || failure.free) return failure;
  failure.evidence += "; " + verdict_text(*d);
  if (!d->exclude.empty()) {
    failure.nodes = d->exclude;
    failure.strong = true;
  } else if (failure.kind == "rank_crash" && d->action != "restart_excluding") {
    failure.nodes.clear();  // the program's fault speaks against no node
  }
  if (restart_meets_it(run, *d, 0)) failure.why_hold = d->advice;
  return failure;
}

void heed_late_verdict(Turn& turn) {
  RunState& run = turn.r();
  const auto* recovering = turn.in<training::Recovering>();
  const Diagnosed* d = verdict_of(run);
  if (recovering == nullptr || d == nullptr) return;
  if (restart_meets_it(run, *d, 1))
    return hold(turn, {"no_restart_helps", verdict_text(*d), d->advice, {}});
  run.failed_of = d->failure_class;
  if (d->exclude.empty() || recovering->rung != training::Rung::InAllocation || !run.live) return;
  const auto without = unusable_inside(turn, d->exclude);
  if (without == run.control.exclude) return;
  run.control.exclude = without;
  const std::string sentence = fmt::format("restarting without {}", nodes_text(without));
  turn.say(sentence);
  write_control(turn, sentence);
}

}  // namespace stoker::core
