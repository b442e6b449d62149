// Recovering: a failure was found and a rung of the ladder is under way: the ranks restart inside
// the allocation, or the task is ended so that the next one resumes.
#pragma once

#include <string>

#include "common/json.hpp"

namespace stoker::core::training {

enum class Rung { InAllocation, NextTask };

}  // namespace stoker::core::training

template <>
struct stoker::EnumNames<stoker::core::training::Rung> {
  static constexpr std::array names{"in_allocation", "next_task"};
};

namespace stoker::core::training {

struct Recovering {
  static constexpr const char* kKind = "recovering";
  Rung rung = Rung::InAllocation;
  std::string failure;  // kind of the failure
  Instant since;
  Instant repeat_at;   // the command is written, or the cancel sent, again
  Instant give_up_at;  // InAllocation only: then the next rung
  STOKER_FIELDS(Recovering, rung, failure, since, repeat_at, give_up_at)
};

}  // namespace stoker::core::training
