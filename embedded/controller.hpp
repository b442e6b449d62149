// The scheduler process's mind: requests and the ends of processes change the Cluster, the store
// keeps it, starts follow. Nothing is started that is not durable first. Single-threaded.
#pragma once

#include <optional>
#include <string>

#include "embedded/node_runner.hpp"
#include "embedded/requests.hpp"
#include "embedded/store.hpp"

namespace stoker::embedded {

class Controller {
 public:
  Controller(std::string folder, Store& store, Cluster cluster, NodeRunner runner)
      : folder_(std::move(folder)),
        store_(store),
        cluster_(std::move(cluster)),
        runner_(std::move(runner)) {}

  Answer handle(const Request& request, std::uint32_t uid, WallTime now);
  // One turn: looks at every process, settles tasks, starts what may start, saves.
  void advance(WallTime now);

  [[nodiscard]] Duration wait(WallTime now) const;  // until the next turn is due, at most 5 s
  [[nodiscard]] std::vector<int> pidfds() const { return runner_.pidfds(); }
  [[nodiscard]] bool has_live_tasks() const;
  [[nodiscard]] bool shutdown_asked() const { return shutdown_; }

 private:
  Answer answer_to(const SubmitJob& request);
  Answer answer_to(const CancelJob& request);
  Answer answer_to(const ExcludeNodes& request);
  Answer answer_to(const FindToken& request);
  Answer answer_to(const Observe& request);
  Answer answer_to(const DrainNode& request);
  Answer answer_to(const ResumeNode& request);
  Answer answer_to(const KillNode& request);
  Answer answer_to(const RequeueJob& request);
  Answer answer_to(const HoldJob& request);
  Answer answer_to(const ReleaseJob& request);
  Answer answer_to(const ListAll& request);
  Answer answer_to(const Shutdown& request);

  Answer set_held(const JobId& job, bool held);
  Result<Job> make_job(const SubmitJob& request) const;
  std::vector<Task*> tasks_of(const JobId& id);  // of the array, or the one
  void end_task(Task& task, EndCause cause);
  void ask_to_leave();
  void bury_dead_nodes(Task& task);
  void look_at_runs(Task& task);
  void enforce(Task& task);
  void settle_task(Task& task);
  void start_tasks();
  void forget_old();
  Answer saved();  // saves at once; an error when that failed
  Status save();

  std::string folder_;
  Store& store_;
  Cluster cluster_;
  NodeRunner runner_;
  Changes changes_;
  std::optional<Error> store_error_;  // the last save failed: what observers get
  std::optional<WallTime> next_begin_;
  WallTime now_;
  std::uint32_t uid_ = 0;
  bool shutdown_ = false;
};

// The checks of a submission that need no cluster: limits of sizes, names, counts. Error: what
// sbatch would refuse.
Status check_submission(const SubmitJob& request);

}  // namespace stoker::embedded
