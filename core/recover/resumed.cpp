// Each rank that prints counts the iterations that it completed since the attempt began.
#include "core/recover/resumed.hpp"

#include <algorithm>

namespace stoker::core {

bool is_foreign(const RunPolicy& policy) {
  if (!has_agents(policy) || policy.train.command.empty()) return true;
  const std::string& program = policy.train.command.front();
  return program.substr(program.rfind('/') + 1) != "stoker-train";
}

Iteration resumed_at(const Digest& first) {
  const std::uint64_t reached = first.last.iteration_max.value;
  const std::uint64_t told = first.iteration_ms.count;
  const std::uint64_t ranks = std::max<std::uint64_t>(1, first.last.reporting);
  if (told == 0 || reached == 0) return Iteration{};
  return Iteration(reached - std::min(reached, (told + ranks - 1) / ranks));
}

}  // namespace stoker::core
