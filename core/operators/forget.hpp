// A run leaves the site's list (`forget`), or is known by another name from now on (`rename`). Only
// one that is over, with no job left. Its rows stay in the journal under the name that they were
// written with; current_name() says whose they are.
#pragma once

#include <optional>
#include <vector>

#include "core/engine/journal.hpp"
#include "core/turn.hpp"

namespace stoker::core {

void on_forget(Turn& turn, const OperatorAsked& asked);
void on_rename(Turn& turn, const OperatorAsked& asked);

// Row `seq` took the name `from` off the list; `to`: the run's name since, empty = forgotten.
struct NameChange {
  Sequence seq;
  RunName from, to;
};

// Nothing unless the row forgets or renames a run.
std::optional<NameChange> name_change_of(const JournalRow& row);

// The name that the run of this row has after `changes` (in order); empty: it was forgotten.
RunName current_name(const RunName& name, Sequence seq, const std::vector<NameChange>& changes);

}  // namespace stoker::core
