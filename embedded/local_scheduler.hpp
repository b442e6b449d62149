// The Scheduler port on this host: what `scheduler: {kind: local}` means. A client of the scheduler
// process of a cluster folder, which it starts when it is not there; jobs live outside the caller.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/engine/node_finder.hpp"
#include "core/engine/ports.hpp"
#include "embedded/requests.hpp"

namespace stoker::embedded {

struct LocalOptions {
  std::string folder;  // <state>/local
  // argv that leads to run_scheduler_process, without --folder: {"/…/stokerd", "local-scheduler"}.
  std::vector<std::string> scheduler_command;
  Duration deadline = 10s;          // for one answer
  std::uint32_t cluster_nodes = 0;  // STOKER_LOCAL_NODES; 0 = as many as needed plus two
  Duration kill_wait = 30s;         // from TERM to KILL (STOKER_LOCAL_KILL_WAIT, a duration)
};
// With cluster_nodes and kill_wait from the environment; program: the path of stokerd.
LocalOptions local_options(const std::string& state_directory, const std::string& program);

// Asks the scheduler process; starts it when it does not run and `start` is set. An answer that is
// not good is an Error here, and Definite.
core::PortResult<Answer> ask(const LocalOptions& options, const Request& request,
                             bool start = true);

class LocalScheduler : public core::Scheduler, public core::NodeFinder {
 public:
  explicit LocalScheduler(LocalOptions options) : options_(std::move(options)) {}

  core::PortResult<JobId> submit(const core::SubmitRequest& request) override;
  core::PortResult<std::monostate> cancel(const core::Cancel& cancel) override;
  core::PortResult<std::monostate> set_exclusions(const core::SetExclusions& change) override;
  core::PortResult<std::optional<JobId>> look_up(const Token& token) override;
  Result<core::SchedulerView> observe(const std::vector<RunName>& runs) override;
  // Never starts the scheduler process: without one there are no nodes.
  Result<std::set<NodeName>> find_nodes(const std::vector<NodeName>& asked) override;

 private:
  LocalOptions options_;
};

// What the port's submit sends: PATH, HOME, locale and the like of this process, the request's
// environment over it; setup sourced by a shell before the agent when the policy names one.
SubmitJob make_submission(const core::SubmitRequest& request, const LocalOptions& options);

}  // namespace stoker::embedded
