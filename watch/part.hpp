// What is read and written of a run, part by part. Who can read a file or a folder can make each
// write there wait for ever, and soon each look: a getdents(2) or a direct read(2) into a page of a
// FUSE of his own keeps the lock in the kernel. What only the owner can read no other user locks.
#pragma once

#include <array>
#include <functional>

#include "common/json.hpp"

namespace stoker::watch {

enum class Part { Own, Switches, FinishFile, Disk, Logs, Published };

// Asked before each part: whether it is to be touched now.
using Gate = std::function<bool(Part)>;
inline bool opens(const Gate& gate, Part part) {
  return !gate || gate(part);
}

}  // namespace stoker::watch

template <>
struct stoker::EnumNames<stoker::watch::Part> {
  static constexpr std::array names{"the run directory itself",
                                    "the switch folder",
                                    "train.finished.file",
                                    "a path of watch.disk",
                                    "a log of watch.logs or watch.kernel_logs",
                                    "what is published (status.json, events.jsonl)"};
};
