// Loading, strictly: the checkpoint must hold exactly the tensors of the model, each part covered
// once and wholly; every file is compared with the manifest while it is read, and the digest of
// what arrived in memory with the one that was saved. Nothing is guessed, nothing is left as it
// was.
#pragma once

#include "worker/train/checkpoint/position.hpp"
#include "worker/train/checkpoint/save.hpp"

namespace stoker::train {

// Compares the manifest with the model's table: names what is missing, unknown or of another shape,
// and every hole or overlap of ranges.
Status check_tensors(const wire::Manifest& manifest, const FlatState& state);

// Collective: fails on all ranks alike. The Error names the file and what is wrong with it; when a
// peer was lost, `peer_lost` is set.
Status load_checkpoint(Comm& comm, FlatState& state, const std::string& path,
                       const wire::Manifest& manifest, Duration deadline, bool& peer_lost);

Result<Position> position_of(const wire::Manifest& manifest);

}  // namespace stoker::train
