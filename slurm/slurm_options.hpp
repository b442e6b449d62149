// What the Scheduler port on SLURM is given from outside.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/time.hpp"

namespace stoker::slurm {

class RestDoor;

struct SlurmOptions {
  std::string user;                                // whose jobs are ours
  std::map<std::string, std::string> environment;  // of this process; cleaned before each call
  Duration deadline = 60s;                         // of one command
  Duration question_every = 45s;                   // refill of the budget (call_budget.hpp)
  std::function<Instant()> now = monotonic_now;
  std::function<WallTime()> wall = wall_now;
  // Whether a login name belongs to a group, be it by its primary group alone. No function: no
  // user.
  std::function<bool(const std::string& user, const std::string& group)> is_member{};
  // The members whom this host can list, for queues that are too long to be read whole.
  std::function<std::vector<std::string>(const std::string& group)> members{};
  // What each row of the queue's answer begins with, fresh for each question (queue_poll.hpp). No
  // function: no mark, and the format is in argv.
  std::function<std::string()> row_mark{};
  // Where the cluster's name is kept: the commands of another one know nothing of our jobs, and
  // their answers must not be taken for the jobs' ends. "" = nowhere.
  std::string cluster_file{};
  // To slurmrestd (rest_controller.hpp). None: SLURM's commands are used.
  std::shared_ptr<RestDoor> rest{};
  // The cluster that commands act on (client_call.hpp); "" = SLURM_CONF's.
  std::string cluster{};
};

}  // namespace stoker::slurm
