// The state as the journal stores it: one row for what belongs to no run, and one for each run, so
// that a turn writes those that it has changed. All are of one turn: the first row holds the sum of
// the others' hashes, and its own hash covers it. A run's row that is missing, damaged or left from
// another turn does not fit.
#pragma once

#include "core/engine/journal.hpp"
#include "daemon/journal/database.hpp"

namespace stoker::daemon {

// All rows; none where there is no state. An Error when they are not what was written. Reads also
// what older versions wrote.
Result<std::optional<core::StateRow>> read_state(Database& db);

class StateTable {
 public:
  static Result<StateTable> prepare(Database& db);
  // Within a transaction.
  Status write(const core::StateRow& state);

 private:
  StateTable(Statement sum, Statement put, Statement known, Statement put_run, Statement drop_run);
  Result<std::string> hash_of(const std::string& run);

  Statement sum_, put_, known_, put_run_, drop_run_;
};

}  // namespace stoker::daemon
