// Decisions in short form, for transcripts.
#pragma once

#include <string>

#include "core/engine/journal.hpp"

namespace stoker::sim {

// "12s training -> recovering: reason" and a line for each action; "" for a row without a word.
std::string describe(const core::JournalRow& row);
std::string describe(const core::Action& action);

}  // namespace stoker::sim
