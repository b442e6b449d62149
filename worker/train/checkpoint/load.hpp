// Loading, strictly: the checkpoint must hold exactly the tensors of the model, each part covered
// once and wholly, from any mesh; each rank reads its own part, and the digest of
// what arrived in memory is compared with the one that was saved. Nothing is guessed, nothing is
// left as it was.
#pragma once

#include "worker/train/checkpoint/position.hpp"
#include "worker/train/checkpoint/save.hpp"

namespace stoker::train {

// Compares the manifest with the table of the whole model: names what is missing, unknown or of
// another shape, and every hole or overlap of ranges and of boxes. A copy for inference need not
// have moments.
Status check_tensors(const wire::Manifest& manifest, const ParameterTable& whole);

// A checkpoint on disk and its manifest; both must outlive the call.
struct StoredCheckpoint {
  const std::string& path;
  const wire::Manifest& manifest;
};

// Collective: each rank reads its share of the files and compares them with the manifest, so that a
// large checkpoint is not one rank's work. Fails on all ranks alike, as load_checkpoint().
Status verify_checkpoint(Comm& comm, StoredCheckpoint saved, Duration deadline, bool& peer_lost);

// Collective: fails on all ranks alike. The Error names the file and what is wrong with it; when a
// peer was lost, `peer_lost` is set.
Status load_checkpoint(Comm& comm, FlatState& state, const ParameterTable& whole,
                       StoredCheckpoint saved, Duration deadline, bool& peer_lost);

Result<Position> position_of(const wire::Manifest& manifest);

}  // namespace stoker::train
