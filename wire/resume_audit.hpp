// What a training says when it has resumed: what was saved against what is there now. It is printed
// as one line `stoker-event WORD {json}` on stdout (the agent turns such lines into events); a
// mismatch is fatal for the training (exit 21).
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::wire {

inline constexpr const char* kEventLinePrefix = "stoker-event ";

struct AuditItem {
  std::string what;  // "learning rate", "iteration", "consumed samples", "rng", "data position",
                     // "topology", …
  std::string saved;
  std::string now;
  bool equal = true;
  STOKER_FIELDS(AuditItem, what, saved, now, equal)
};

struct ResumeAudit {
  static constexpr const char* kKind = "resume_audit";
  std::string checkpoint;  // directory name
  Iteration iteration;
  bool passed = true;
  std::string guarantee;  // "bitwise" or the tolerance and why
  std::vector<AuditItem> items;
  STOKER_FIELDS(ResumeAudit, checkpoint, iteration, passed, guarantee, items)
};

}  // namespace stoker::wire
