// Controller: the way in to slurmctld. SlurmScheduler decides what to ask and what an answer
// proves; this only asks. Two ways: SLURM's commands (command_controller.hpp), and slurmrestd
// (rest_controller.hpp), which leaves to the commands what its API lacks. An answer that failed,
// was cut off or is in an unknown form is an error, never an empty list. Any thread. To add a way
// in: implement Controller, and make it in slurm_scheduler.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/ports.hpp"
#include "slurm/job_detail.hpp"
#include "slurm/queue_poll.hpp"
#include "slurm/submission.hpp"

namespace stoker::slurm {

struct QueueQuestion {
  std::string users;  // "a,b"; "" = everybody's
  std::uint64_t job = 0;
  // Of other people's jobs only those of these names, or with a script below these folders; no
  // names: all jobs.
  std::vector<RunName> names{};
  std::vector<std::string> folders{};
  NodeLists* lists = nullptr;  // see parse_queue
  Matters matters{};           // see parse_queue
};

struct ClusterFacts {
  std::string name;                          // "" = it does not say
  bool accounts = false;                     // there is a slurmdbd
  std::optional<std::uint32_t> max_array{};  // MaxArraySize
};

enum class IdBelongs : std::uint8_t { ToNoJob, ToToken, ToAnother };

class Controller {
 public:
  virtual ~Controller() = default;
  // The rows of the queue, ended jobs too. Of one job that SLURM denies: none.
  virtual Result<std::vector<QueueRow>> queue(const QueueQuestion& question) = 0;
  // What queue() has not said in the rows themselves. Denied jobs are left out.
  virtual Result<std::map<JobId, JobNumbers>> numbers(const std::vector<std::uint64_t>& jobs) = 0;
  // Of one job or of all tasks of an array. None: SLURM denies the id.
  virtual Result<std::vector<JobDetail>> details(const JobId& job) = 0;
  // Asks once more, in another way than queue(): does a job of ours carry this token?
  virtual Result<bool> shows(const Token& token) = 0;
  virtual Result<IdBelongs> holder(std::uint64_t job, const Token& token) = 0;
  // All nodes, or one. `limit` zero: as long as any other question.
  virtual Result<std::vector<core::NodeSeen>> nodes(const std::string& node, Duration limit) = 0;
  virtual Result<ClusterFacts> cluster() = 0;
  // From now on an answer that names another cluster is an error.
  virtual void bind(const std::string& /*cluster*/) {}

  virtual core::PortResult<JobId> submit(const Submission& prepared) = 0;
  struct Tried {
    bool taken = false, too_few_nodes = false;  // neither: it could not be tried
  };
  virtual Tried try_out(const Submission& prepared) = 0;
  virtual core::PortResult<std::monostate> cancel(const JobId& job, bool pending_only) = 0;
  virtual core::PortResult<std::monostate> signal(const JobId& job, const std::string& name) = 0;
  // Sends the whole list, and returns what was said: whether it was taken is read again.
  virtual core::PortResult<std::string> exclude(const JobId& array, const std::string& nodes) = 0;

  // One of SLURM's commands, for what there is no other way to ask or to order. A question counts
  // in the budget, an act does not.
  virtual Result<os::CommandOutput> question(std::vector<std::string> argv) = 0;
  virtual Result<os::CommandOutput> act(std::vector<std::string> argv) = 0;
};

}  // namespace stoker::slurm
