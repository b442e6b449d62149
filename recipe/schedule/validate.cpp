#include "recipe/schedule/validate.hpp"

#include <array>
#include <fmt/format.h>

#include "recipe/schedule/simulate.hpp"

namespace stoker::recipe {
namespace {

using Seen = std::array<bool, 4>;  // F, B, I, W of one stage and micro-batch

bool has(const Seen& seen, OpKind kind) {
  return seen[static_cast<std::size_t>(kind)];
}

// What `op` contradicts of the operations before it on its rank; "" when nothing.
std::string objection(const PipelineOp& op, const Seen& seen) {
  const auto other = [&](OpKind kind) { return PipelineOp{kind, op.stage, op.micro_batch}.text(); };
  if (has(seen, op.kind)) return "stands twice";
  if (op.kind == OpKind::Forward) return "";
  if (!has(seen, OpKind::Forward)) return "stands before its forward " + other(OpKind::Forward);
  if (op.kind == OpKind::WeightGradient)
    return has(seen, OpKind::InputGradient)
               ? ""
               : "stands before its input gradient " + other(OpKind::InputGradient);
  const OpKind whole = op.kind == OpKind::Backward ? OpKind::InputGradient : OpKind::Backward;
  return has(seen, whole) ? "and " + other(whole) + " exclude each other: either B, or I and W"
                          : "";
}

Status check_operations(const PipelineSchedule& s, std::vector<Seen>& cells) {
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
    for (const PipelineOp& op : s.ranks[r]) {
      if (!is_compute(op.kind)) continue;
      if (op.stage >= s.stages() || op.micro_batch >= s.micro_batches)
        return fail(fmt::format("there are {} stages and {} micro-batches, numbered from 0",
                                s.stages(), s.micro_batches),
                    s.name(op));
      if (s.rank_of_stage[op.stage] != r)
        return fail(
            fmt::format("stands on rank {}, its stage is on rank {}", r, s.rank_of_stage[op.stage]),
            s.name(op));
      Seen& seen = cells[std::size_t{op.stage} * s.micro_batches + op.micro_batch];
      if (const std::string bad = objection(op, seen); !bad.empty()) return fail(bad, s.name(op));
      seen[static_cast<std::size_t>(op.kind)] = true;
    }
  return ok();
}

Status check_complete(const PipelineSchedule& s, const std::vector<Seen>& cells) {
  for (std::uint32_t stage = 0; stage < s.stages(); ++stage)
    for (std::uint32_t m = 0; m < s.micro_batches; ++m) {
      const Seen& seen = cells[std::size_t{stage} * s.micro_batches + m];
      std::optional<OpKind> missing;
      if (!has(seen, OpKind::Forward))
        missing = OpKind::Forward;
      else if (!has(seen, OpKind::Backward) && !has(seen, OpKind::InputGradient))
        missing = OpKind::Backward;
      else if (has(seen, OpKind::InputGradient) && !has(seen, OpKind::WeightGradient))
        missing = OpKind::WeightGradient;
      if (missing)
        return fail(fmt::format("{} is missing on rank {}", PipelineOp{*missing, stage, m}.text(),
                                s.rank_of_stage[stage]),
                    s.file);
    }
  return ok();
}

Status check_slots(const PipelineSchedule& s, std::uint32_t slots) {
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    std::uint32_t alive = 0;
    for (const PipelineOp& op : s.ranks[r]) {
      if (op.kind == OpKind::Backward || op.kind == OpKind::WeightGradient) --alive;
      if (op.kind == OpKind::Forward && ++alive > slots)
        return fail(
            fmt::format("needs activation {} on rank {}, which may hold {}", alive, r, slots),
            s.name(op));
    }
  }
  return ok();
}

}  // namespace

Status validate(const PipelineSchedule& schedule, const ScheduleLimits& limits) {
  std::vector<Seen> cells(std::size_t{schedule.stages()} * schedule.micro_batches);
  STOKER_TRY_STATUS(check_operations(schedule, cells));
  STOKER_TRY_STATUS(check_complete(schedule, cells));
  const auto run = simulate(schedule, {});
  if (!run) return fail(run.error());
  if (limits.slots) return check_slots(schedule, *limits.slots);
  return ok();
}

}  // namespace stoker::recipe
