// What a client may ask the scheduler process over its socket: one request, one answer, each one
// JSON text that ends in a newline. The socket is 0600; the kernel says who asks (SO_PEERCRED).
// What each does: docs/embedded-scheduler.md. To add one: a struct here with kKind, its place in
// Request, answer_to() in controller.hpp, and its row in that document's table.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "core/event.hpp"
#include "embedded/cluster.hpp"

namespace stoker::embedded {

inline constexpr std::size_t kMaxRequestBytes = 4u << 20;
inline constexpr std::size_t kMaxAnswerBytes = 32u << 20;

struct CancelJob {  // of a job that is gone, or of another token: success, nothing is touched
  static constexpr const char* kKind = "cancel";
  Token token;  // "" = not compared
  JobId job;    // task 0 = the whole array
  bool pending_only = false;
  bool by_stoker = false;  // else somebody's hand
  STOKER_FIELDS(CancelJob, token, job, pending_only, by_stoker)
};
struct ExcludeNodes {  // the whole list, for the tasks that are still pending
  static constexpr const char* kKind = "exclude";
  Token token;
  JobId job;
  std::vector<NodeName> nodes;
  STOKER_FIELDS(ExcludeNodes, token, job, nodes)
};
struct FindToken {
  static constexpr const char* kKind = "find_token";
  Token token;
  STOKER_FIELDS(FindToken, token)
};
struct Observe {
  static constexpr const char* kKind = "observe";
  std::vector<std::string> names;  // of jobs; empty = all
  STOKER_FIELDS(Observe, names)
};
struct DrainNode {
  static constexpr const char* kKind = "drain";
  NodeName node;
  std::string reason;
  STOKER_FIELDS(DrainNode, node, reason)
};
struct ResumeNode {
  static constexpr const char* kKind = "resume";
  NodeName node;
  STOKER_FIELDS(ResumeNode, node)
};
struct KillNode {  // all its processes die at once; it stays DOWN until it is resumed
  static constexpr const char* kKind = "kill_node";
  NodeName node;
  STOKER_FIELDS(KillNode, node)
};
struct RequeueJob {
  static constexpr const char* kKind = "requeue";
  JobId job;
  STOKER_FIELDS(RequeueJob, job)
};
struct HoldJob {  // pending tasks; task 0 = all of the array
  static constexpr const char* kKind = "hold";
  JobId job;
  STOKER_FIELDS(HoldJob, job)
};
struct ReleaseJob {
  static constexpr const char* kKind = "release";
  JobId job;
  STOKER_FIELDS(ReleaseJob, job)
};
struct ListAll {  // for people: every task that is remembered, with times and log files
  static constexpr const char* kKind = "list";
  STOKER_NO_FIELDS(ListAll)
};
struct Shutdown {  // ends the scheduler process; refused while jobs are live unless `cancel_jobs`
  static constexpr const char* kKind = "shutdown";
  bool cancel_jobs = false;
  STOKER_FIELDS(Shutdown, cancel_jobs)
};

using Request =
    std::variant<SubmitJob, CancelJob, ExcludeNodes, FindToken, Observe, DrainNode, ResumeNode,
                 KillNode, RequeueJob, HoldJob, ReleaseJob, ListAll, Shutdown>;

struct TaskLine {  // of ListAll
  core::JobSeen seen;
  std::string name, folder;  // folder: of its processes' logs
  WallTime submitted, started, ended;
  STOKER_FIELDS(TaskLine, seen, name, folder, submitted, started, ended)
};

struct Answer {
  bool good = false;
  std::string error, hint;   // when not good: nothing was done
  std::optional<JobId> job;  // of submit and find_token
  std::vector<core::JobSeen> jobs;
  std::vector<core::NodeSeen> nodes;
  std::vector<TaskLine> lines;
  STOKER_FIELDS(Answer, good, error, hint, job, jobs, nodes, lines)
};

}  // namespace stoker::embedded
