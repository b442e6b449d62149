// A forward or backward never begins before what it needs has ended, so the times at which the
// operations of a rank for each stage begin are an order in which no rank waits in a circle,
// wherever the stages lie.
#include <algorithm>

#include "common/check.hpp"
#include "recipe/schedule/generators.hpp"
#include "recipe/schedule/simulate.hpp"

namespace stoker::recipe {

PipelineSchedule one_f_one_b_on(const std::vector<std::uint32_t>& rank_of_stage,
                                std::uint32_t micro_batches) {
  const PipelineSchedule apart =
      one_f_one_b(static_cast<std::uint32_t>(rank_of_stage.size()), micro_batches);
  const auto timeline = simulate(apart, {});
  STOKER_CHECK(timeline.has_value(), "1F1B goes on with any number of micro-batches");
  PipelineSchedule schedule;
  schedule.micro_batches = micro_batches;
  schedule.rank_of_stage = rank_of_stage;
  schedule.ranks.resize(1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end()));
  std::vector<std::vector<std::pair<double, PipelineOp>>> timed(schedule.ranks.size());
  for (std::size_t stage = 0; stage < rank_of_stage.size(); ++stage)
    for (std::size_t i = 0; i < apart.ranks[stage].size(); ++i)
      timed[rank_of_stage[stage]].emplace_back(timeline->start[stage][i], apart.ranks[stage][i]);
  for (std::size_t r = 0; r < timed.size(); ++r) {
    std::stable_sort(timed[r].begin(), timed[r].end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [start, op] : timed[r]) schedule.ranks[r].push_back(op);
  }
  return schedule;
}

}  // namespace stoker::recipe
