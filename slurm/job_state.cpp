#include "slurm/job_state.hpp"

#include <charconv>

namespace stoker::slurm {
namespace {

using core::JobState;

struct Word {
  std::string_view name, letters;
  JobState state;
};
constexpr Word kWords[] = {
    {"PENDING", "PD", JobState::Pending},
    {"CONFIGURING", "CF", JobState::Configuring},
    {"RUNNING", "R", JobState::Running},
    {"SUSPENDED", "S", JobState::Suspended},
    {"COMPLETING", "CG", JobState::Completing},
    {"COMPLETED", "CD", JobState::Completed},
    {"FAILED", "F", JobState::Failed},
    {"CANCELLED", "CA", JobState::Cancelled},
    {"TIMEOUT", "TO", JobState::Timeout},
    {"NODE_FAIL", "NF", JobState::NodeFail},
    {"PREEMPTED", "PR", JobState::Preempted},
    {"BOOT_FAIL", "BF", JobState::BootFail},
    {"DEADLINE", "DL", JobState::Deadline},
    {"OUT_OF_MEMORY", "OOM", JobState::OutOfMemory},
    // Flags that stand in place of the base state.
    {"REQUEUED", "RQ", JobState::Requeued},
    {"REQUEUE_HOLD", "RH", JobState::Requeued},
    {"REQUEUE_FED", "RF", JobState::Requeued},
    {"SPECIAL_EXIT", "SE", JobState::Requeued},
    {"LAUNCH_FAILED", "LF", JobState::Requeued},
    {"RECONFIG_FAIL", "", JobState::Requeued},
    {"POWER_UP_NODE", "", JobState::Configuring},
    {"RESV_DEL_HOLD", "RD", JobState::Pending},
    {"REVOKED", "RV", JobState::Requeued},
    {"RESIZING", "RS", JobState::Running},
    {"SIGNALING", "SI", JobState::Running},
    {"EXPEDITING", "", JobState::Pending},
    {"STOPPED", "ST", JobState::Suspended},
    {"STAGE_OUT", "SO", JobState::Completing},
    {"UPDATE_DB", "", JobState::Completing},
};

// "OUT_OF_ME+": the only word that begins so. Empty when several do.
std::optional<JobState> complete_word(std::string_view stem) {
  std::optional<JobState> found;
  for (const Word& w : kWords) {
    if (stem.empty() || w.name.substr(0, stem.size()) != stem) continue;
    if (found && *found != w.state) return std::nullopt;
    found = w.state;
  }
  return found;
}

}  // namespace

std::optional<StateWord> parse_state(std::string_view word) {
  StateWord out;
  constexpr std::string_view kBy = "CANCELLED by ";
  if (word.substr(0, kBy.size()) == kBy) {
    const std::string_view uid = word.substr(kBy.size());
    std::from_chars(uid.data(), uid.data() + uid.size(), out.cancelled_by_uid);
    out.state = JobState::Cancelled;
    return out;
  }
  for (const Word& w : kWords) {
    if (word != w.name && (w.letters.empty() || word != w.letters)) continue;
    out.state = w.state;
    return out;
  }
  if (word.size() < 2 || word.back() != '+') return std::nullopt;
  const auto state = complete_word(word.substr(0, word.size() - 1));
  if (!state) return std::nullopt;
  out.state = *state;
  return out;
}

}  // namespace stoker::slurm
