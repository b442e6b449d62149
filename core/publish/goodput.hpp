// Goodput: where the time of a run went, by cause. Between two events of a run its state stands
// still, so each event closes the interval before it. Training counts when an iteration was never
// done before; ETTR is its share of all time but that in which a person had the run stopped
// (Kokolis et al., HPCA 2025: effective training time ratio, waiting in the queue included).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/json.hpp"
#include "common/time.hpp"

namespace stoker::core {

struct RunState;

// What one incident cost: from the first sign of it until the training goes on, and what was
// repeated then.
struct IncidentCost {
  std::string kind;
  Instant since;
  WallTime wall;
  Iteration iteration;         // reached before it
  std::uint64_t repeated = 0;  // iterations
  Duration time{};
  double node_hours = 0;
  STOKER_FIELDS(IncidentCost, kind, since, wall, iteration, repeated, time, node_hours)
};
struct CauseCost {
  std::uint32_t times = 0;  // of incidents; 0: no incident (queue, start, checkpoint, slow)
  Duration time{};
  double node_hours = 0;
  STOKER_FIELDS(CauseCost, times, time, node_hours)
};

struct Goodput {
  Instant until;                          // accounted so far
  std::map<std::string, Duration> spent;  // train repeated slow checkpoint start queue down held
  Iteration reached;                      // furthest ever
  double node_hours = 0;                  // of the allocation, in all of it but train
  double all_node_hours = 0;              // of the allocation
  double measured_kwh = 0, measured_node_hours = 0;  // where the agents measured their GPUs' power
  std::map<std::string, CauseCost> costs;            // kind of incident, or queue start …
  std::vector<IncidentCost> incidents;               // the last kIncidentsKept, oldest first
  STOKER_FIELDS(Goodput, until, spent, reached, node_hours, all_node_hours, measured_kwh,
                measured_node_hours, costs, incidents)
};
inline constexpr std::size_t kIncidentsKept = 16;

void account(RunState& run, Instant now);
double ettr(const Goodput& goodput);
Duration whole(const Goodput& goodput);  // without `held`
// "1.25 GPU hours", or node hours where scheduler.gpus_per_node is not given.
std::string hours_text(const RunState& run, double node_hours);
// The same of figures that were published; "0.00 GPU hours" where both are 0, "less than 0.01 node
// hours" where only the rounding is.
std::string cost_text(double gpu_hours, double node_hours);
// "1.25 GPU hours lost so far"; "" where two digits behind the point would show nothing.
std::string lost_so_far(const RunState& run, double node_hours);
// What the incident that is over cost and will: "0.53 GPU hours lost so far, about 1.20 GPU hours
// with the repeated iterations"; the account goes on while they are repeated. "" without one,
// without nodes, or where it rounds to nothing.
std::string incident_cost_text(const RunState& run, std::uint64_t repeated);

// Model FLOPs utilisation of the usual iteration (PaLM, Chowdhery et al. 2022, appendix B): empty
// where goodput.peak_tflops, the FLOPs of a sample, the batch or the step time are not known.
std::optional<double> mfu(const RunState& run);

// Energy of the allocation so far: GPU power that the agents measured (times PUE), and for the rest
// of the node hours the model goodput.gpu_watts x PUE. `how` says which.
struct Energy {
  double kwh = 0, co2_kg = 0;
  double measured_share = 0;  // of the node hours
  std::string how;
};
std::optional<Energy> energy(const RunState& run);  // empty: no GPUs are known

// How often this run should save: its own save cost and time between failures (Daly 2006).
struct SaveAdvice {
  Duration usual{}, best{}, cost{}, mtbf{};
  std::uint32_t failures = 0;
};
std::optional<SaveAdvice> save_advice(const RunState& run);

}  // namespace stoker::core
