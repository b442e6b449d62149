// Deletes old checkpoints of this run (checkpoints.keep), in the lead agent of a running
// generation. The rules, all of them on the side of keeping:
//   - only after a newer one was saved and read back as good; when the newest complete one is
//     damaged nothing is deleted;
//   - only complete, good checkpoints of our own lineage and our own run, which our own user wrote;
//     damaged, unfinished and strange directories are left alone, and do not count;
//   - never the `last` newest good ones, a multiple of `every`, a pinned iteration, one that a
//     follower is to be run on and the daemon has not heard of yet, or one that a start may resume
//     from: the running attempt's, the chosen one, the newest orders' one;
//   - nor one that is to be copied away and whose copy was not read back yet (archiver.hpp);
//   - a directory is renamed to pruned.<name> first, so that a half-deleted one is never taken
//     for good; what a killed agent left of it is removed by the next pruning.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wire/agent_event.hpp"
#include "wire/keep_rule.hpp"
#include "wire/orders.hpp"
#include "worker/agent/loop.hpp"

namespace stoker::agent {

struct CheckpointSurvey {
  std::vector<wire::SurveyedCheckpoint> complete;
  std::string foreign;  // one line about the first that another user wrote; "" = none
};
// The complete checkpoints of `start`'s lineage and run that our own user wrote. `known_good` need
// no second reading; what was found good is added. Blocks: reads the content of what is not known
// when `start` wants it.
CheckpointSurvey survey_checkpoints(const std::string& directory, const wire::Start& start,
                                    std::set<wire::CheckpointId>& known_good);

// Renames it aside, then deletes. Error: it is no directory of our own (a link is left alone), or
// the file system refuses.
Status remove_checkpoint(const std::string& directory, const wire::CheckpointId& id);
// Removes what a killed agent left of earlier removals.
void remove_pruned_leftovers(const std::string& directory, const std::string& run);

class Pruner {
 public:
  struct Wiring {
    Loop& loop;
    std::string run_directory, checkpoints;              // absolute
    std::function<std::set<wire::CheckpointId>()> held;  // a start goes on from these; loop thread
    std::function<bool(const wire::CheckpointId&)> must_stay;  // not copied away yet; loop thread
    std::function<void(wire::AgentBody)> tell;
  };
  Pruner(Wiring wiring, const wire::Start& start);
  ~Pruner();
  Pruner(const Pruner&) = delete;
  Pruner& operator=(const Pruner&) = delete;

  void saved();  // a checkpoint was saved: looks, in a thread; once more when it is busy
  [[nodiscard]] bool busy() const { return busy_; }

 private:
  struct Survey {
    CheckpointSurvey found;
    std::set<wire::CheckpointId> known_good, ordered;
    std::optional<std::vector<std::uint64_t>> pin;  // of the newest orders: spikes come and go
    std::optional<std::vector<wire::FollowRule>> follow;
    bool superseded = false;
  };
  void look();
  void on_survey(Survey survey);
  void on_removed(const std::vector<wire::AgentBody>& told);

  Wiring wiring_;
  wire::Start start_;
  wire::KeepRule rule_;
  std::set<wire::CheckpointId> known_good_;
  bool busy_ = false, again_ = false, foreign_told_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace stoker::agent
