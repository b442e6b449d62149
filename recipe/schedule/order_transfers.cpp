// Every operation gets a place in one order that all ranks share: a computation at its start, a
// transfer, on both of its sides, at the end of the computation that makes its value; transfers
// before computations of the same moment. Each rank's list is that order, restricted to the rank.
// The owner of the first operation of the order that is not done can always go on, so blocking
// transfers cannot close a circle.
#include <algorithm>
#include <map>
#include <tuple>

#include "recipe/schedule/passes.hpp"
#include "recipe/schedule/simulate.hpp"

namespace stoker::recipe {
namespace {

// (moment, transfers first, then what makes transfers of one moment different)
using Place = std::tuple<double, int, std::uint32_t, int, std::uint32_t>;
using Value = std::tuple<bool, std::uint32_t, std::uint32_t>;  // forward, stage that made it, micro

// The stage whose computation makes what `op` transfers.
std::uint32_t maker(const PipelineOp& op) {
  if (op.kind == OpKind::RecvForward) return op.stage - 1;
  return op.kind == OpKind::RecvBackward ? op.stage + 1 : op.stage;
}
bool carries_forward(OpKind kind) {
  return kind == OpKind::SendForward || kind == OpKind::RecvForward;
}

}  // namespace

Status order_transfers(PipelineSchedule& schedule) {
  const double unit = chunks_per_rank(schedule);  // whole numbers: no rounding at equal moments
  const OpTimes times{unit, unit, unit, 0};
  const auto run = simulate(schedule, times);
  if (!run) return fail(run.error());
  std::map<Value, double> made;  // when
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
    for (std::size_t i = 0; i < schedule.ranks[r].size(); ++i) {
      const PipelineOp& op = schedule.ranks[r][i];
      if (op.kind == OpKind::Forward || is_backward(op.kind))
        made[{op.kind == OpKind::Forward, op.stage, op.micro_batch}] =
            run->start[r][i] + duration_of(op.kind, times, run->chunks);
    }
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    std::vector<std::pair<Place, PipelineOp>> placed;
    for (std::size_t i = 0; i < schedule.ranks[r].size(); ++i) {
      const PipelineOp& op = schedule.ranks[r][i];
      const bool forward = carries_forward(op.kind);
      if (is_compute(op.kind))
        placed.push_back({Place{run->start[r][i], 1, 0, 0, 0}, op});
      else
        placed.push_back({Place{made.at({forward, maker(op), op.micro_batch}), 0, maker(op),
                                forward ? 0 : 1, op.micro_batch},
                          op});
    }
    std::stable_sort(placed.begin(), placed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < placed.size(); ++i) schedule.ranks[r][i] = placed[i].second;
  }
  return ok();
}

}  // namespace stoker::recipe
