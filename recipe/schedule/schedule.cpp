#include "recipe/schedule/schedule.hpp"

#include <fmt/format.h>

namespace stoker::recipe {

std::string PipelineOp::text() const {
  if (kind == OpKind::ReduceGradients || kind == OpKind::ReduceTied)
    return fmt::format("{}{}", stage, name_of(kind));
  return fmt::format("{}{}{}", stage, name_of(kind), micro_batch);
}

bool is_compute(OpKind kind) {
  return kind <= OpKind::WeightGradient;
}

bool is_backward(OpKind kind) {
  return kind == OpKind::Backward || kind == OpKind::InputGradient;
}

std::string PipelineSchedule::name(const PipelineOp& op) const {
  if (op.line == 0) return op.text();
  return fmt::format("{}:{}:{}: {}", file, op.line, op.column, op.text());
}

}  // namespace stoker::recipe
