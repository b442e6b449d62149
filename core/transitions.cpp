// Look-ups in the transition tables.
#include "core/transitions.hpp"

namespace stoker::core {

bool allowed(TrainingKind from, Trigger trigger, TrainingKind to) {
  for (const auto& row : kTrainingTable)
    if (row.from == from && row.trigger == trigger && row.to == to) return true;
  return false;
}

bool allowed(SupplyKind from, SupplyTrigger trigger, SupplyKind to) {
  for (const auto& row : kSupplyTable)
    if (row.from == from && row.trigger == trigger && row.to == to) return true;
  return false;
}

bool ignores(TrainingKind from, Trigger trigger) {
  for (const auto& row : kTrainingIgnored)
    if (row.from == from && row.trigger == trigger) return true;
  return false;
}

}  // namespace stoker::core
