#include "slurm/call_budget.hpp"

#include <algorithm>

namespace stoker::slurm {

double CallBudget::level(Instant now) const {
  const auto passed = static_cast<double>((now - at_).count());
  return std::min(burst_, level_ + passed / static_cast<double>(every_.count()));
}

void CallBudget::spend(Instant now) {
  const std::scoped_lock lock(mutex_);
  if (every_ == Duration{}) return;
  level_ = level(now) - 1;
  at_ = now;
}

Duration CallBudget::wait(Instant now) const {
  const std::scoped_lock lock(mutex_);
  if (every_ == Duration{}) return {};
  const double missing = 1 - level(now);
  if (missing <= 0) return {};
  return Duration(static_cast<std::int64_t>(missing * static_cast<double>(every_.count())));
}

}  // namespace stoker::slurm
