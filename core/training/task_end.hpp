// The end of a task, as a training state takes it into account (reactions.hpp): supply/task_end.cpp
// collects what is known and asks the state once a task.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/turn.hpp"

namespace stoker::core::training {

struct TaskEnd {
  supply::Ending ending;               // the task and how the scheduler reported its end
  std::vector<NodeName> nodes;         // that it ran on
  std::optional<LiveGeneration> live;  // the generation that ended with it
  bool asked = false;                  // stoker had cancelled it
  bool chain = false;                  // other tasks wait behind it
  std::string sentence;                // "job 12_3 is over (failed)"

  [[nodiscard]] const JobSeen& seen() const { return ending.end; }
  [[nodiscard]] bool is_by_hand() const {
    return ending.end.state == JobState::Cancelled && !asked;
  }
};

// An end that the training planned itself (finished, saved and left, its own exit point), by the
// outcome that its agents reported. False: it is another kind of end.
bool planned_end(Turn& turn, const std::optional<LiveGeneration>& live, const std::string& over);

// The job of a script ended because the training is finished, no matter what was ordered in that
// moment: then the run is. False: it is not proven, or the run has agents.
bool finished_script(Turn& turn, const TaskEnd& end);

}  // namespace stoker::core::training
