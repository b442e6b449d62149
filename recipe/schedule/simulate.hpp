// Executes a schedule by its dependencies, with given durations: when each operation starts, how
// long the step takes, how much of it the ranks idle, how many activations are alive. A forward
// needs the forward of the stage before; a backward (B or I) its own forward and the backward of
// the stage behind; W its own I. Between ranks each of them arrives `hop` later; transfers cost the
// ranks no time. Communication operations are skipped.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/schedule/schedule.hpp"

namespace stoker::recipe {

// Of all chunks of a rank together, for one micro-batch, in any unit; a chunk takes its share, B
// takes I + W. With full recomputation I holds the second forward: input = 2.
struct OpTimes {
  double forward = 1, input = 1, weight = 1;
  double hop = 0;  // from rank to rank
};

struct Timeline {
  double makespan = 0;
  std::vector<double> busy;                // of each rank
  std::vector<std::uint32_t> peak;         // of each rank: chunk activations alive at once
  std::vector<std::vector<double>> start;  // of each operation; of communication: its neighbour's
  double chunks = 1;                       // of a rank

  // Mean share of the makespan in which a rank idles: (p-1)/(m+p-1) for 1F1B.
  [[nodiscard]] double bubble() const;
  // Peak of a rank in activations of all its layers: the unit in which schedules are compared.
  [[nodiscard]] double peak_share(std::size_t rank) const { return peak[rank] / chunks; }
};

double duration_of(OpKind kind, const OpTimes& times, double chunks);
double chunks_per_rank(const PipelineSchedule& schedule);

// Error: the schedule cannot go on; names the operation and what it waits for. Call validate()
// first on anything that was not generated here.
Result<Timeline> simulate(const PipelineSchedule& schedule, const OpTimes& times);

}  // namespace stoker::recipe
