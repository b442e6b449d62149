// Walks each rank once with the set of free slots.
#include <map>
#include <set>
#include <utility>

#include "recipe/schedule/passes.hpp"

namespace stoker::recipe {

SlotPlan assign_slots(const PipelineSchedule& schedule) {
  SlotPlan plan;
  for (const auto& ops : schedule.ranks) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> held;
    std::set<std::uint32_t> free;
    std::uint32_t count = 0;
    std::vector<std::uint32_t> of;
    for (const PipelineOp& op : ops) {
      if (!is_compute(op.kind)) {
        of.push_back(kNoSlot);
        continue;
      }
      const std::pair key{op.stage, op.micro_batch};
      if (op.kind == OpKind::Forward) {
        if (free.empty()) free.insert(count++);
        held[key] = *free.begin();
        free.erase(free.begin());
      }
      const auto slot = held.find(key);
      of.push_back(slot == held.end() ? kNoSlot : slot->second);
      const bool frees = op.kind == OpKind::Backward || op.kind == OpKind::WeightGradient;
      if (!frees || slot == held.end()) continue;
      free.insert(slot->second);
      held.erase(slot);
    }
    plan.of.push_back(std::move(of));
    plan.count.push_back(count);
  }
  return plan;
}

}  // namespace stoker::recipe
