// PyTorch's flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE): one dump a rank, a pickle or JSON, of
// the process groups and the last collectives. Source: torch/csrc/distributed/c10d/FlightRecorder,
// versions 2.0 to 2.10 of the dump.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "diagnose/cause/collectives.hpp"

namespace stoker::diagnose {

// True when a file that begins so may be a dump.
bool may_be_flight_dump(std::string_view head);

// What the dump of `rank` says about each group. Errors: no dump.
Result<std::vector<CollectiveReport>> read_flight_dump(std::string_view bytes, std::uint32_t rank,
                                                       const std::string& object);

}  // namespace stoker::diagnose
