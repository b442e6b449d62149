// Where a training that chooses its own checkpoint went on: no manifest says it, its first
// iteration line does.
#pragma once

#include "core/event.hpp"

namespace stoker::core {

// Not our own core: it reads and writes its checkpoints by itself.
bool is_foreign(const RunPolicy& policy);

// The iteration in front of the first one that the first digest of an attempt reports; 0: it has
// of none.
Iteration resumed_at(const Digest& first);

}  // namespace stoker::core
