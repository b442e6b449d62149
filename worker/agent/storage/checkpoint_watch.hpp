// Looks for new checkpoints of a foreign training in its folder, every few seconds, in a thread of
// its own: the file system may hang, and then there is simply no further look. One more where the
// training has ended by itself: what it wrote last is not waited for until it stands still.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "watch/foreign_checkpoints.hpp"
#include "worker/agent/loop.hpp"

namespace stoker::agent {

class CheckpointWatch {
 public:
  CheckpointWatch(Loop& loop, std::string directory, std::function<void(Iteration)> saved);
  ~CheckpointWatch();
  CheckpointWatch(const CheckpointWatch&) = delete;
  CheckpointWatch& operator=(const CheckpointWatch&) = delete;

  // The training left with 0. Empty: nothing new, or no answer of the file system in half a second.
  std::optional<Iteration> last_look();

 private:
  void look();

  Loop& loop_;
  std::string directory_;
  std::function<void(Iteration)> saved_;
  watch::CheckpointNews news_;
  Loop::Timer timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace stoker::agent
