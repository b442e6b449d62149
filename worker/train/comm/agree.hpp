// One verdict of all ranks: a load that one of them cannot make, none of them makes.
#pragma once

#include <string>

#include "worker/train/comm/comm.hpp"

namespace stoker::train {

// Collective over the world: fails on all ranks alike where one of them failed. The Error names the
// first rank and its reason (at most 499 bytes of it), and `object`. When the Comm itself fails,
// `peer_lost` is set; it is left alone otherwise.
Status agree(Comm& comm, const Status& mine, const std::string& object, const Call& call,
             bool& peer_lost);

}  // namespace stoker::train
