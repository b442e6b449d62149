// Copies checkpoints to another disk (checkpoints.archive): whole, or without the optimizer's
// state, which gives a checkpoint of its own that inference can load and no start resumes from.
//   - written below archiving.<run>.<name>.g<generation>, or .<random> behind that where another
//   user
//     has this name; file by file (aside, fsynced, renamed),
//     with a record of what is done: a copy that was killed goes on after its last whole file;
//   - what is read is held against the manifest on the way; the manifest is written last, then
//     every file of the copy is read back, and only then the directory gets its name;
//   - a younger generation takes an unfinished copy over by renaming it, so that an older one that
//     still writes no longer finds it.
// The archive itself is never made: where it is missing, its disk is away.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "wire/checkpoint_manifest.hpp"
#include "wire/lineage.hpp"
#include "wire/orders.hpp"
#include "worker/agent/storage/pruner.hpp"

namespace stoker::agent {

struct ArchiveRule {
  std::string to;           // absolute; "" = nothing is copied
  std::uint64_t every = 0;  // iterations whose multiples are copied
  bool without_optimizer = false;
  [[nodiscard]] bool wants(const wire::CheckpointId& id) const {
    return !to.empty() && every > 0 && id.iteration.value % every == 0;
  }
};

// The pure choice: what is to be copied, oldest first. Only good ones whose copy is not there.
std::vector<wire::CheckpointId> choose_archivable(
    const std::vector<wire::SurveyedCheckpoint>& complete, const ArchiveRule& rule,
    const std::set<wire::CheckpointId>& copied);

// Copies of `run` that are there, were read back, and hold what the rule wants. Error: the archive
// cannot be read.
Result<std::set<wire::CheckpointId>> archived_checkpoints(const ArchiveRule& rule,
                                                          const std::string& run);

// Seen by another thread while a copy is made.
struct CopyPulse {
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> pieces = 0;  // moves as long as the disks answer
};

struct ArchiveCopy {
  std::string path;
  std::uint64_t bytes = 0;
  // With an Error: another try gives the same.
  bool source_damaged = false;
  bool name_taken = false;  // by another user, in an archive that is sticky
};

// Blocks. `by`: the generation that copies. An Error leaves what is whole for the next try.
Status copy_checkpoint(const std::string& checkpoint, const ArchiveRule& rule, Generation by,
                       CopyPulse& pulse, ArchiveCopy& copy);

// Removes unfinished copies of `run` whose checkpoint is not among `wanted` any more.
void remove_archive_leftovers(const ArchiveRule& rule, const std::string& run,
                              const std::set<wire::CheckpointId>& wanted);

}  // namespace stoker::agent
