// Rivals: a live job that is none of this run's own but has its name, or was submitted from its
// folders. Two trainings on one checkpoint tree destroy it, so nothing is submitted beside one;
// what runs already is left alone, since stoker cannot know which of the two is wanted.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/engine/ports.hpp"
#include "core/sentence.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {
namespace {

constexpr std::size_t kRivalsKept = 8;

}  // namespace

std::string rival_text(const RunState& run) {
  if (run.jobs.rivals.empty()) return "";
  const std::size_t more = run.jobs.rivals.size() - 1;
  return fmt::format("{}{}", run.jobs.rivals.front(),
                     more == 0 ? "" : fmt::format(", and {} like it", more));
}

void on_rivals(Turn& turn, const RivalsSeen& seen) {
  RunState& run = turn.r();
  const bool had = !run.jobs.rivals.empty();
  run.jobs.rivals = seen.jobs;
  if (run.jobs.rivals.size() > kRivalsKept) run.jobs.rivals.resize(kRivalsKept);
  if (run.jobs.rivals.empty()) {
    if (!had) return;
    turn.say("the job that was in the way is gone");
    resolve(turn, "rival");
    return ensure(turn, "");
  }
  const std::string text =
      fmt::format("nothing is submitted for {} while another job is in the way: {}",
                  turn.name().text, rival_text(run));
  turn.say(text);
  raise(turn, {Severity::Critical, "rival", text,
               fmt::format("squeue -a -n {}  # cancel or rename the one that is not wanted",
                           turn.name().text),
               ""});
}

}  // namespace stoker::core::supply

namespace stoker::core {

RunGrounds grounds_of(const RunPolicy& policy) {
  RunGrounds grounds{policy.run, {policy.directory + "/batch/"}, policy.group};
  if (const std::string& tree = policy.checkpoints.directory; !tree.empty())
    grounds.folders.push_back((tree.front() == '/' ? tree : policy.directory + "/" + tree) + "/");
  return grounds;
}

}  // namespace stoker::core
