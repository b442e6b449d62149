// Starts, watches and ends node processes for the scheduler process. What it knows beyond the files
// of a NodeFolder is a cache (pidfds): after kill -9 a new scheduler process finds everything
// again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/os/process.hpp"
#include "embedded/cluster.hpp"
#include "embedded/node_folder.hpp"

namespace stoker::embedded {

class NodeRunner {
 public:
  // node_command: argv of the hidden subcommand, without its --path.
  NodeRunner(std::string folder, std::string cluster_id, std::vector<std::string> node_command)
      : folder_(std::move(folder)),
        cluster_id_(std::move(cluster_id)),
        node_command_(std::move(node_command)) {}

  // Writes the spec and starts the node process of run `index`. Repeatable: the claim in the
  // folder lets only one of them go on.
  Status start(const Job& job, const Task& task, std::size_t index);

  enum class Seen { Starting, Alive, Ended };
  struct Look {
    Seen seen = Seen::Starting;
    NodeExit exit;                // when Ended
    bool host_restarted = false;  // it ended because this host rebooted
  };
  // Never blocks. A node process that died without a word (kill -9) is followed by a sweep of its
  // processes before it counts as ended.
  Look look(const Job& job, const Task& task, std::size_t index);

  // TERM, then the node process's ladder; a process gets it once.
  void ask_to_leave(const Task& task, std::size_t index);
  // KILL to everything of this run, the node process included. How many are left.
  std::uint32_t kill_all(const Task& task, std::size_t index);

  [[nodiscard]] std::string mark_of(const Task& task, const NodeName& node) const;
  [[nodiscard]] NodeFolder folder_of(const Task& task, const NodeName& node) const;
  void forget(const Task& task);  // it is finished: its descriptors go
  // Become readable when a node process ends.
  [[nodiscard]] std::vector<int> pidfds() const;

 private:
  struct Known {
    os::ProcessIdentity identity;
    os::Fd pidfd;
    int starts = 0;
    bool claimed = false, asked = false;
  };
  using Key = std::tuple<JobId, std::uint32_t, NodeName>;
  Known& known(const Task& task, std::size_t index);
  Look look_unclaimed(const Job& job, const Task& task, std::size_t index, Known& k);
  [[nodiscard]] NodeSpec make_spec(const Job& job, const Task& task, std::size_t index) const;

  std::string folder_, cluster_id_;
  std::vector<std::string> node_command_;
  std::map<Key, Known> known_;
};

}  // namespace stoker::embedded
