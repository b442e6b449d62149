// What stoker knows of a training before it starts, what it assumes, and what it does not know: for
// `stoker check` and the comments of `stoker init`. From the configuration, from the newest log and
// from the checkpoints that are there; nothing is started. To add a question: a function in
// known.cpp and its name in the list at the end.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "configs/schema/run_checks.hpp"

namespace stoker::cli {

struct Knowledge {
  using Rows = std::vector<std::pair<std::string, std::string>>;  // "size" -> "2 nodes of 8 ranks"
  Rows known, assumed, not_known;
};

// `run`: without errors. `text`: of RUN.yaml; a value whose comment begins with "assumed", behind
// it or in the line above, is as good as none.
Knowledge knowledge_of(const configs::CheckedRun& run, const std::string& text);

}  // namespace stoker::cli
