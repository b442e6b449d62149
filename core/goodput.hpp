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

struct Goodput {
  Instant until;                          // accounted so far
  std::map<std::string, Duration> spent;  // train repeated slow checkpoint start queue down held
  Iteration reached;                      // furthest ever
  double node_hours = 0;                  // of the allocation, in all of it but train
  STOKER_FIELDS(Goodput, until, spent, reached, node_hours)
};

void account(RunState& run, Instant now);
double ettr(const Goodput& goodput);
Duration whole(const Goodput& goodput);  // without `held`

// How often this run should save: its own save cost and time between failures (Daly 2006).
struct SaveAdvice {
  Duration usual{}, best{}, cost{}, mtbf{};
  std::uint32_t failures = 0;
};
std::optional<SaveAdvice> save_advice(const RunState& run);

}  // namespace stoker::core
