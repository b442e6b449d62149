// Which checkpoint a start may load: the newest good one of the ancestry. A checkpoint is good when
// its manifest is there, says what the directory's name says, and lists exactly the files that are
// there, with their sizes and, in a deep scan, their content. Everything else is named with its
// reason and left alone: nothing is ever repaired, renamed or deleted here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "wire/checkpoint_manifest.hpp"
#include "wire/lineage.hpp"

namespace stoker::watch {

// Sizes: names and sizes only (a few system calls). Content: reads every file and compares XXH3.
enum class Depth { Sizes, Content };

struct FoundCheckpoint {
  std::string name;  // "step-000123.g000017"
  std::string path;
  wire::Manifest manifest;
};

struct RefusedCheckpoint {
  std::string name;
  std::string why;
};

struct CheckpointScan {
  std::optional<FoundCheckpoint> newest;  // good, and in the ancestry
  // Newer than that, newest first. Of entries that other users made, where they can, the 20 newest.
  std::vector<RefusedCheckpoint> damaged;
  // One of them may be the run's own: to begin from scratch would pass over what was saved. Not
  // what another user wrote where others can put something.
  bool ours_damaged = false;
  std::vector<std::string> foreign;     // good names, outside the ancestry (late writers)
  std::vector<std::string> unfinished;  // saves that never ended: no manifest, or still aside
};

// Names of checkpoints that are known to be damaged, and why.
using KnownDamage = std::map<std::string, std::string>;

// Looks at `directory`, newest first, until one is good. Without `lineage` every generation counts
// (a training that was started by hand). A missing directory is an empty one.
Result<CheckpointScan> scan_checkpoints(const std::string& directory,
                                        const std::optional<wire::Lineage>& lineage, Depth depth,
                                        const KnownDamage& known = {});

// One checkpoint; the Error says what is wrong with which file.
Result<wire::Manifest> check_checkpoint(const std::string& path, Depth depth);

// Reads every `count`-th of the manifest's files from `index` on, and compares XXH3: one rank's
// share of what all of them check together.
Status check_content(const std::string& path, const wire::Manifest& manifest, std::size_t index,
                     std::size_t count);

// Whether our own user or root wrote the checkpoint (common/os/own_files.hpp): the folder, a link
// to it, and the manifest. Of another user's word nothing is loaded, deleted or copied away.
Status check_writer(const std::string& path);

// Both, for a start to resume from.
Result<wire::Manifest> check_own_checkpoint(const std::string& path, Depth depth);

// Reads and parses the manifest alone, with its own limits checked (plain file names, no file
// twice, the version).
Result<wire::Manifest> read_manifest(const std::string& path);

}  // namespace stoker::watch
