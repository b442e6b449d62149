// gen-000017/end.json: the run is over with this generation, and why. Its lead makes it durable
// before it says so anywhere else; a job's first act reads that of the newest generation before any
// rank starts. So an array's next task starts nothing, also while the daemon is away. A person
// lifts it (control.hpp: lifts). In the generation's own folder no older generation can overwrite
// it.
#pragma once

#include <string>

#include "common/ids.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace stoker::wire {

inline constexpr const char* kEndName = "end.json";

// Stopped: by a person, or by the training's own plan.
enum class End { Finished, Stopped };

}  // namespace stoker::wire

template <>
struct stoker::EnumNames<stoker::wire::End> {
  static constexpr std::array names{"finished", "stopped"};
};

namespace stoker::wire {

struct EndMark {
  int version = 1;
  RunName run;
  Generation generation;
  End kind = End::Finished;
  std::string by;       // the person who stopped it; "" = as the training planned
  std::string why;      // a sentence
  Iteration iteration;  // reached
  OrderNumber order;    // newest one that its lead knew
  Token token;          // of the submission
  JobId job;
  WallTime at;
  STOKER_FIELDS(EndMark, version, run, generation, kind, by, why, iteration, order, token, job, at)
};

}  // namespace stoker::wire
