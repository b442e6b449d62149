// The end of a task, and what each training state makes of it. supply/task_end.cpp collects what is
// known and asks the state once a task.
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

// One a state, in its file. Ranks were at work in the first three (lost_task.cpp); nothing of the
// run was at work in the last four (finished.cpp).
void on_task_end(Turn& turn, const Starting&, const TaskEnd& end);
void on_task_end(Turn& turn, const Training&, const TaskEnd& end);
void on_task_end(Turn& turn, const Suspect&, const TaskEnd& end);
void on_task_end(Turn& turn, const Stopping& stopping, const TaskEnd& end);
void on_task_end(Turn& turn, const Recovering&, const TaskEnd& end);
void on_task_end(Turn& turn, const Queued&, const TaskEnd& end);
void on_task_end(Turn& turn, const Idle&, const TaskEnd& end);
void on_task_end(Turn& turn, const Held&, const TaskEnd& end);
void on_task_end(Turn& turn, const Finished&, const TaskEnd& end);
void on_task_end(Turn& turn, const Stopped&, const TaskEnd& end);

// An end that the training planned itself (finished, saved and left, its own exit point), by the
// outcome that its agents reported. False: it is another kind of end.
bool planned_end(Turn& turn, const std::optional<LiveGeneration>& live, const std::string& over);

}  // namespace stoker::core::training
