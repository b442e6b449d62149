// What "bitwise" depends on besides the configuration: the build, the libraries and the CPU of
// every rank. Written into the manifest and compared at a resume; any difference lowers the
// guarantee, never refuses a start.
#pragma once

#include <map>
#include <string>

#include "recipe/train_config.hpp"
#include "worker/train/comm/comm.hpp"

namespace stoker::train {

// The tensor library's facts, with "build" (XXH3 of this program's file) and, unless the numerics
// are portable, "cpu" (model name as the kernel gives it; "unknown" when it does not).
std::map<std::string, std::string> own_numerics(std::map<std::string, std::string> library,
                                                recipe::Numerics wanted);

// Collective. Rank 0's facts on every rank, and "ranks": "alike", or "mixed" with a digest of which
// rank has which. Error: a peer was lost.
Result<std::map<std::string, std::string>> numerics_of_all(
    Comm& comm, const std::map<std::string, std::string>& own, Duration deadline);

}  // namespace stoker::train
