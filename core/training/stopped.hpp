// Stopped: a person ended the run, by command or switch file. `resume` takes it up again.
#pragma once

#include <string>

#include "common/json.hpp"

namespace stoker::core::training {

struct Stopped {
  static constexpr const char* kKind = "stopped";
  std::string by;
  STOKER_FIELDS(Stopped, by)
};

}  // namespace stoker::core::training
