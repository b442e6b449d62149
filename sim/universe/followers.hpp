// Followers: what the jobs of `after:` do, as the run directory shows it: the claim, the command,
// its end. It knows the truth, and what must never happen: a command twice at a time on one
// checkpoint, or once more after it has ended well; a checkpoint that is deleted before its command
// is done with it.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/followers/follower.hpp"
#include "core/state.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/ports.hpp"
#include "sim/universe/random.hpp"
#include "sim/universe/scenario.hpp"
#include "sim/universe/timeline.hpp"
#include "wire/follow_files.hpp"
#include "wire/lineage.hpp"

namespace stoker::sim {

class Followers {
 public:
  struct Hooks {
    std::function<void(const std::string&)> say, broken;
    std::function<bool(const wire::CheckpointId&)> is_there;  // the checkpoint
  };
  Followers(Timeline& time, Random& random, Cluster& cluster, SimFiles& files, Guard broken,
            Hooks hooks);

  // A job of `after:`, not of the training.
  static bool is_ours(const SimJob& job) { return job.name.find('+') != std::string::npos; }
  // The scheduler's hooks.
  void job_started(const SimJob& job);
  void job_killed(const SimJob& job, bool gently);
  void deleted(const std::vector<wire::CheckpointId>& gone);
  // What the daemon reads of the jobs that it waits for; `readable`: it can read the files at all.
  [[nodiscard]] std::vector<core::FollowerEnded> ends(const core::RunState& run,
                                                      bool readable) const;
  [[nodiscard]] std::uint32_t ended_well() const {
    return static_cast<std::uint32_t>(good_.size());
  }

 private:
  struct Command {
    std::string folder;  // of its files
    Token token;
    wire::CheckpointId checkpoint;
    std::string of;  // follower and checkpoint
  };
  void begin(std::uint64_t id);
  void end(std::uint64_t id, int code, bool ordered);
  void vanish(std::uint64_t id);  // without a word

  Timeline& time_;
  Random& random_;
  Cluster& cluster_;
  SimFiles& files_;
  Guard broken_;
  Hooks hooks_;
  std::set<std::string> claims_;
  std::map<std::uint64_t, Command> running_;  // by job
  std::set<std::string> good_;                // Command::of
};

}  // namespace stoker::sim
