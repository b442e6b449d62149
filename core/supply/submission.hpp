// Supply: the set of submissions of a run. A submission is an array of tasks, one at a time; its
// state says where it stands, each alternative with the data valid there. One submission may run
// while the next waits (top-up); never are two live on purpose.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "common/node_list.hpp"
#include "core/event.hpp"

namespace stoker::core::supply {

struct Intended {  // journalled, the scheduler's answer is not there yet
  static constexpr const char* kKind = "intended";
  STOKER_NO_FIELDS(Intended)
};
struct Unknown {  // asked without an answer: the queue is searched for the token
  static constexpr const char* kKind = "unknown";
  Instant since;
  std::uint32_t asked = 0;   // look-ups sent
  std::uint32_t absent = 0;  // good answers without it
  Instant ask_at;            // the next look-up
  STOKER_FIELDS(Unknown, since, asked, absent, ask_at)
};
struct Pending {
  static constexpr const char* kKind = "pending";
  STOKER_NO_FIELDS(Pending)
};
struct Running {
  static constexpr const char* kKind = "running";
  std::uint32_t task = 0;
  STOKER_FIELDS(Running, task)
};
struct Ending {  // the task is proven over; the last reports of its agents are awaited
  static constexpr const char* kKind = "ending";
  std::uint32_t task = 0;
  JobSeen end;
  Instant decide_at;
  STOKER_FIELDS(Ending, task, end, decide_at)
};
struct Terminal {
  static constexpr const char* kKind = "terminal";
  std::string why;
  STOKER_FIELDS(Terminal, why)
};

using State = std::variant<Intended, Unknown, Pending, Running, Ending, Terminal>;

struct Task {
  JobState state = JobState::Pending;
  std::uint32_t restart = 0;
  std::string reason;
  NodeList nodes;
  std::optional<WallTime> ends_at;
  std::optional<JobSeen> early_end;  // seen while an earlier task counted as the one that runs
  STOKER_FIELDS(Task, state, restart, reason, nodes, ends_at, early_end)
};

struct Submission {
  Token token;
  OrderNumber order;
  std::uint32_t array_tasks = 1;
  std::uint32_t nodes = 1;    // with spares
  std::uint32_t planned = 0;  // active ones by the plan when it was made; 0 = not known
  std::vector<NodeName> exclude;
  JobId job;  // of the array; task = 0
  State state;
  std::map<std::uint32_t, Task> tasks;  // that were seen on their own; never more than array_tasks
  bool rest_cancelled = false;  // the tasks that were not started are cancelled, by us or by hand
  bool rest_gone = false;       // they were seen to be gone
  bool cancel_asked = false;    // by us: the running task, or all
  Instant intended_at;
  Duration time_limit{};    // of each task; 0 = not known (an older journal)
  bool unreserved = false;  // without the run's own reservation
  STOKER_FIELDS(Submission, token, order, array_tasks, nodes, planned, exclude, job, state, tasks,
                rest_cancelled, rest_gone, cancel_asked, intended_at, time_limit, unreserved)

  [[nodiscard]] bool live() const { return !std::holds_alternative<Terminal>(state); }
  // Tasks that were not seen to start. A cancel that is not carried out yet does not keep them from
  // it.
  [[nodiscard]] std::uint32_t unstarted() const {
    if (!live() || rest_gone) return 0;
    std::uint32_t started = 0;
    for (const auto& [number, task] : tasks)
      if (number != 0 && task.state != JobState::Pending && task.state != JobState::Requeued)
        ++started;
    return array_tasks > started ? array_tasks - started : 0;
  }
  // Those of them that are to start.
  [[nodiscard]] std::uint32_t waiting() const { return rest_cancelled ? 0 : unstarted(); }
};

}  // namespace stoker::core::supply
