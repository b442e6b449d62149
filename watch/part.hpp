// What is read of a run, part by part. All but its own files lies where other users may write, or
// anywhere: who can write in a folder can make each look into it wait for ever (a write(2) whose
// memory is a page of a FUSE of his own keeps the folder's lock).
#pragma once

#include <array>
#include <functional>

#include "common/json.hpp"

namespace stoker::watch {

enum class Part { Own, Switches, FinishFile, Disk, Logs };

// Asked before each part: whether it is to be read now.
using Gate = std::function<bool(Part)>;
inline bool opens(const Gate& gate, Part part) {
  return !gate || gate(part);
}

}  // namespace stoker::watch

template <>
struct stoker::EnumNames<stoker::watch::Part> {
  static constexpr std::array names{"the run's own files", "the switch folder",
                                    "train.finished.file", "a path of watch.disk",
                                    "a log of watch.logs or watch.kernel_logs"};
};
