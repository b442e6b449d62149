// Copies checkpoints away in the background (checkpoints.archive), in the lead agent of a running
// generation: a look at its begin and after each save, one copy at a time, oldest first, in a
// thread of the lowest priority. What is due stays until its copy was read back (must_stay()). A
// failure is reported once, retried 1 min to 30 min apart, and hurts neither the training nor the
// pruning of what is not due.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "worker/agent/loop.hpp"
#include "worker/agent/storage/archive_copy.hpp"

namespace stoker::agent {

class Archiver {
 public:
  struct Wiring {
    Loop& loop;
    std::string run_directory, checkpoints;  // absolute
    std::function<void(wire::AgentBody)> tell;
    std::function<void()> copied;  // something may be pruned now
  };
  Archiver(Wiring wiring, const wire::Start& start);
  ~Archiver();
  Archiver(const Archiver&) = delete;
  Archiver& operator=(const Archiver&) = delete;

  void look();  // at the begin, and when a checkpoint was saved
  // It is to be copied, and a verified copy is not known yet.
  [[nodiscard]] bool must_stay(const wire::CheckpointId& id) const;
  // Nothing is under way: all is copied, or waits for its next try.
  [[nodiscard]] bool settled() const { return !busy_ && !again_; }

 private:
  struct Round {
    std::set<wire::CheckpointId> copied;
    std::vector<wire::AgentBody> told;
    std::string failure;           // "" = none
    std::string foreign;           // a checkpoint of another user, in one line
    bool done = false;             // a copy was made
    bool more = false;             // others are due
    wire::CheckpointId refused{};  // not tried again: damaged, or its name is another user's
  };
  struct Job;
  static Round run_round(const Job& job);
  static void copy_next(const Job& job, const std::vector<wire::CheckpointId>& due, Round& round);
  void on_round(Round round);
  void check_pulse();

  Wiring wiring_;
  wire::Start start_;
  ArchiveRule rule_;
  std::set<wire::CheckpointId> copied_, refused_;
  std::string failure_;  // reported
  bool busy_ = false, again_ = false, foreign_told_ = false;
  Duration pause_{};
  Loop::Timer retry_ = 0, pulse_timer_ = 0;
  std::shared_ptr<CopyPulse> pulse_ = std::make_shared<CopyPulse>();
  std::uint64_t pieces_ = 0;  // when it was checked last
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace stoker::agent
