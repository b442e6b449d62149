// A published line as the journal row that it was made from, as far as a story of the run needs it:
// what happened, what was decided, which kinds of alerts were raised. Wall time stands in for
// engine time.
#pragma once

#include <optional>
#include <string>

#include "core/engine/journal.hpp"
#include "wire/status.hpp"

namespace stoker::cli {

// Lines of one run, in order: a line that does not change the state does not name it either.
class JournalRows {
 public:
  // Empty: an event that this version does not know, or no time.
  std::optional<core::JournalRow> row_of(const wire::PublishedEvent& event);

 private:
  std::string state_;
};

}  // namespace stoker::cli
