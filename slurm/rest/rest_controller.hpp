// slurmrestd as the way in (docs/slurm.md): jobs, nodes, submissions, cancellations and exclusions
// over its API v0.0.38 to v0.0.43, the newest that the server has. What the API lacks (steps,
// signals to steps alone in some versions, a submission that is only tried, accounts, drains, an
// option of sbatch) is left to SLURM's commands, once they have named the same cluster.
#pragma once

#include <mutex>

#include "slurm/command_controller.hpp"
#include "slurm/rest/rest_door.hpp"

namespace stoker::slurm {

class JsonItem;

// What `stoker doctor` wants to know.
struct RestFacts {
  int api = 0;  // 38 for v0.0.38
  std::string release, cluster;
  std::size_t jobs = 0;
  Duration took{};  // of the list of jobs
};
Result<RestFacts> look_at_rest(RestDoor& door, Duration limit);

class RestController final : public Controller {
 public:
  RestController(RestDoor& door, std::unique_ptr<CommandController> commands, CallBudget& budget,
                 const SlurmOptions& options)
      : door_(door), commands_(std::move(commands)), budget_(budget), options_(options) {}

  Result<std::vector<QueueRow>> queue(const QueueQuestion& question) override;
  Result<std::map<JobId, JobNumbers>> numbers(const std::vector<std::uint64_t>& jobs) override;
  Result<std::vector<JobDetail>> details(const JobId& job) override;
  Result<bool> shows(const Token& token) override;
  Result<IdBelongs> holder(std::uint64_t job, const Token& token) override;
  Result<std::vector<core::NodeSeen>> nodes(const std::string& node, Duration limit) override;
  Result<ClusterFacts> cluster() override;
  void bind(const std::string& cluster) override;

  core::PortResult<JobId> submit(const Submission& prepared) override;
  Tried try_out(const Submission& prepared) override;
  core::PortResult<std::monostate> cancel(const JobId& job, bool pending_only) override;
  core::PortResult<std::monostate> signal(const JobId& job, const std::string& name) override;
  core::PortResult<std::string> exclude(const JobId& array, const std::string& nodes) override;

  Result<os::CommandOutput> question(std::vector<std::string> argv) override;
  Result<os::CommandOutput> act(std::vector<std::string> argv) override;

 private:
  friend Result<RestFacts> look_at_rest(RestDoor& door, Duration limit);
  struct Reply {
    long status = 0;
    Json document;        // an object
    std::string body;     // "" of a streamed list
    bool denied = false;  // the id is no job's
    std::string said;     // its errors, "" = none
  };
  struct Lost {  // no usable reply
    Error error;
    bool reached = true;  // the server may have done what it was asked to
    long status = 0;      // of an answer that did not come from slurmrestd
  };
  using Outcome = std::variant<Reply, Lost>;

  Result<int> api();  // 38 for v0.0.38
  Outcome exchange(const std::string& method, const std::string& what, const std::string& body,
                   Duration limit = {});
  Outcome judge(RestAnswer answer);
  // GET of a list, an item at a time (JsonItems). Error also: errors beside the list.
  Result<Reply> list(const std::string& what, const char* key, Duration limit,
                     const std::function<Status(const JsonItem&)>& take,
                     const std::function<bool(const JsonItem&)>& is_anothers = {});
  Result<Reply> ask_job(const std::string& id);  // a good answer, or `denied`
  Status know(const std::string& cluster);       // Error: it was another one before
  std::string cluster_in(const Json& document) const;
  Result<ClusterFacts> cluster_of_commands();
  Status same_cluster();  // as the commands
  std::vector<std::string> waiting_in(const Reply& reply, const JobId& job) const;
  core::PortResult<std::monostate> judge_order(const Outcome& outcome, const std::string& id) const;
  Outcome order_jobs(const JobId& job, const Json& more);  // DELETE of jobs/
  static bool has_no_such_order(const Outcome& outcome);   // this server
  core::PortResult<std::monostate> cancel_waiting(const JobId& job);

  RestDoor& door_;
  std::unique_ptr<CommandController> commands_;
  CallBudget& budget_;
  const SlurmOptions& options_;
  std::mutex mutex_;
  int api_ = 0;          // 0 = not asked yet
  std::string cluster_;  // that has answered; "" = it has not said
  std::string bound_;    // whose answers alone count; "" = not known yet
  Json pings_;           // of the controllers that answered for it
  std::optional<Instant> commands_checked_;
};

}  // namespace stoker::slurm
