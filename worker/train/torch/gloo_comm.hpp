// GlooComm: Comm over c10d's ProcessGroupGloo, with its quirks shut in here (Debian's LibTorch
// 1.13): the process groups never time out by themselves, each call waits for its own deadline;
// sums are f32 or f64 only; Gloo moves the bytes, the additions are ours, in rank order. After a
// failed call the missing ranks are found by a roll call through the store, so that the error names
// them.
#pragma once

#include <memory>
#include <string>

#include "worker/train/comm/comm.hpp"
#include "worker/train/comm/store.hpp"

namespace stoker::train {

// Own: rank 0 holds the store. Theirs: rank 0 of an earlier connection does.
enum class GlooStore { Own, Theirs };

struct GlooOptions {
  std::string address;  // of rank 0: MASTER_ADDR
  std::uint16_t port = 0;
  std::string prefix;  // of all keys in the store: "<run>.<generation>.<attempt>"
  std::uint32_t rank = 0;
  Mesh mesh;
  Duration deadline;  // for all ranks to meet
  GlooStore store = GlooStore::Own;
};

// Errors: the port is taken, rank 0 does not answer, ranks that did not come (named).
Result<std::unique_ptr<Comm>> connect_gloo(const GlooOptions& options);

// The store that the ranks of `gloo` (of connect_gloo) met in; keeps it.
Store store_of(const std::shared_ptr<Comm>& gloo);

}  // namespace stoker::train
