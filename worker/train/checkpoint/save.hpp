// Saving: every rank writes its shard of the flat state into a directory aside; when all shards are
// on the disk, rank 0 writes the manifest, and renames the directory into place. A directory that
// exists is never written into. What fails leaves nothing behind.
#pragma once

#include "worker/train/checkpoint/shard_file.hpp"
#include "worker/train/comm/comm.hpp"

namespace stoker::train {

struct SaveRequest {
  std::string directory;    // of all checkpoints
  wire::Manifest manifest;  // everything but tensors, ranges, files, digest and times
  Attempt attempt;
  Duration deadline;  // for all ranks to have written
};

struct SaveReport {  // the same on all ranks
  bool saved = false;
  bool already = false;    // the same state had been saved before
  bool disk_full = false;  // why it was not saved
  std::string why;
  std::string name;
  std::string path;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Collective. The Error is that of the Comm: a peer was lost. Any other failure is in the report.
Result<SaveReport> save_checkpoint(Comm& comm, const FlatState& state, const SaveRequest& request);

// The digest of the whole state: every rank adds its shard. Collective.
Result<std::string> state_digest(Comm& comm, const FlatState& state, Duration deadline);

}  // namespace stoker::train
