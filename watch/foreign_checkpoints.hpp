// Checkpoints of trainings that are not ours, by the names and marks of known formats: Megatron
// (latest_checkpointed_iteration.txt), DeepSpeed (latest), Hugging Face (checkpoint-500 with its
// trainer_state.json), torch.distributed.checkpoint (step-500 with its .metadata), Accelerate
// (step_500 with its random_states_0.pkl), orbax (500 with its _CHECKPOINT_METADATA), Lightning
// (epoch=1-step=500.ckpt, with metrics behind it too) and plain files (model_500.pt). Nothing is
// opened but the two marks, and nothing is judged: a file is there, not good. What another user put
// into the folder does not count, unless the folder is that user's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker::watch {

struct ForeignCheckpoint {
  Iteration iteration;
  std::string name;     // of the entry, or of the mark's checkpoint
  std::string print;    // changes while it is written
  bool marked = false;  // what is written last is there; else it is whole when it stands still
  friend bool operator==(const ForeignCheckpoint&, const ForeignCheckpoint&) = default;
};

// The iteration in a file's name; empty: no checkpoint of a known format.
std::optional<Iteration> iteration_of_file(std::string_view name);

// The newest one in `directory`; empty: no checkpoint, or no such directory.
Result<std::optional<ForeignCheckpoint>> newest_foreign_checkpoint(const std::string& directory);

// Where the checkpoint of an iteration is, by the names above (and iter_0000500, global_step500);
// empty: not there.
std::optional<std::string> foreign_checkpoint_path(const std::string& directory,
                                                   Iteration iteration);

// What is new between two looks: a checkpoint that was not there at the first one, and is whole.
class CheckpointNews {
 public:
  std::optional<Iteration> take(const std::optional<ForeignCheckpoint>& newest);
  // The training has ended by itself and without an error: what is there is whole.
  std::optional<Iteration> last(const std::optional<ForeignCheckpoint>& newest);

 private:
  bool looked_ = false;
  std::optional<ForeignCheckpoint> first_, before_;
  Iteration told_;
};

}  // namespace stoker::watch
