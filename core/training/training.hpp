// Training: iterations are being completed. The deadlines of the hang detector watch it.
#pragma once

#include "common/json.hpp"

namespace stoker::core::training {

struct Training {
  static constexpr const char* kKind = "training";
  STOKER_NO_FIELDS(Training)
};

}  // namespace stoker::core::training
