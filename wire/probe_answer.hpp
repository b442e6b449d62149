// What `stoker-agent stacks --job` leaves for the requester: one file a node, `<node>.probe`, in
// the folder of the stacks. The question's number keeps an older answer from being taken for a new
// one.
#pragma once

#include <cstdint>
#include <string>

#include "common/json.hpp"

namespace stoker::wire {

inline constexpr const char* kProbeEnd = ".probe";

struct ProbeAnswer {
  std::string question;
  std::string node;
  std::uint32_t processes = 0;  // of the job, not of the probe itself
  std::uint32_t stacks = 0;     // files written
  STOKER_FIELDS(ProbeAnswer, question, node, processes, stacks)
};

}  // namespace stoker::wire
