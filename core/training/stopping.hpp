// Stopping: the running generation was ordered to exit, or exits by plan. It escalates: save and
// leave, leave now, then the scheduler's cancel; unknown is not dead, so it waits while the
// scheduler is blind.
#pragma once

#include <string>

#include "common/json.hpp"
#include "wire/control.hpp"

namespace stoker::core::training {

// What comes after it: nothing, the next task, or a person.
enum class Goal { Stop, Next, Hold };

}  // namespace stoker::core::training

template <>
struct stoker::EnumNames<stoker::core::training::Goal> {
  static constexpr std::array names{"stop", "next", "hold"};
};

namespace stoker::core::training {

struct Stopping {
  static constexpr const char* kKind = "stopping";
  Goal goal = Goal::Stop;
  wire::Level level = wire::Level::SaveAndLeave;
  std::string by;       // who asked; "" = the decider
  Instant escalate_at;  // when the next, harder step is taken
  int step = 0;         // 0 save and leave, 1 leave now, 2 and above: cancelled so often
  STOKER_FIELDS(Stopping, goal, level, by, escalate_at, step)
};

}  // namespace stoker::core::training
