// Whom a cancel hits.
#include "sim/universe/checker.hpp"

namespace stoker::sim {
namespace {

// Null: the run is not recovering.
const core::training::Recovering* recovering_of(const core::JournalRow& row,
                                                const core::SiteState& state) {
  const auto run = state.runs.find(row.event.run);
  if (run == state.runs.end() || row.decision.to != "recovering") return nullptr;
  return std::get_if<core::training::Recovering>(&run->second.training);
}

}  // namespace

// The cancelled task runs, and its ranks are well.
bool Checker::hits_a_living(const core::Cancel& cancel) {
  SimGeneration* live = training_.live();
  return live != nullptr && live->job == cancel.job.job &&
         (cancel.whole_array || cancel.job.task == 0 || cancel.job.task == live->task) &&
         training_.healthy(*live);
}

// Which task it is that a recovery ends.
void Checker::note_order(const core::JournalRow& row, const core::SiteState& state) {
  const auto* recovering = recovering_of(row, state);
  if (recovering == nullptr || recovering->since != row.event.at) return;
  const SimGeneration* live = training_.live();
  to_end_ = live == nullptr ? JobId{} : JobId{live->job, live->task};
}

// A cancel that is repeated hits the task that it was meant for, not the one that came after it.
void Checker::check_repeated(const core::JournalRow& row, const core::SiteState& state,
                             const core::Cancel& cancel) {
  const auto* recovering = recovering_of(row, state);
  const bool repeated = std::holds_alternative<core::Tick>(row.event.body) &&
                        recovering != nullptr && recovering->since < row.event.at;
  if (!repeated || !hits_a_living(cancel)) return;
  const SimGeneration* live = training_.live();
  if (JobId{live->job, live->task} != to_end_)
    broken("cancelled a task that came after the one to end, and whose ranks are well: " +
           row.decision.reason);
}

}  // namespace stoker::sim
