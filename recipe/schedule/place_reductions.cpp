// Looks for the last operation of each stage on its rank; what waits for both ends of the model is
// appended behind everything.
#include <map>

#include "recipe/schedule/passes.hpp"

namespace stoker::recipe {

void place_reductions(PipelineSchedule& schedule, bool tied_embedding) {
  const std::uint32_t last = schedule.stages() - 1;
  const bool tied = tied_embedding && schedule.rank_of_stage[0] != schedule.rank_of_stage[last];
  const auto waits = [&](std::uint32_t stage) { return tied && (stage == 0 || stage == last); };
  for (auto& ops : schedule.ranks) {
    std::map<std::uint32_t, std::size_t> ends;  // stage -> its last backward, sent
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (ops[i].kind == OpKind::Backward || ops[i].kind == OpKind::WeightGradient ||
          ops[i].kind == OpKind::SendBackward)
        ends[ops[i].stage] = i;
    std::vector<PipelineOp> with, at_end;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      with.push_back(ops[i]);
      const auto end = ends.find(ops[i].stage);
      if (end == ends.end() || end->second != i) continue;
      if (waits(ops[i].stage)) {
        at_end.push_back({OpKind::ReduceTied, ops[i].stage, 0});
        at_end.push_back({OpKind::ReduceGradients, ops[i].stage, 0});
      } else {
        with.push_back({OpKind::ReduceGradients, ops[i].stage, 0});
      }
    }
    with.insert(with.end(), at_end.begin(), at_end.end());
    ops = std::move(with);
  }
}

}  // namespace stoker::recipe
