// A journal whose first page is damaged: SQLite cannot even name its tables, though all their pages
// are there. The migrations put the tables of an empty file at the same pages always, so a fresh
// file's first page fits. Nothing is believed for that: only rows that fit their hashes are taken.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::daemon {

// Writes `copy`: `damaged` (and its -wal) with a fresh first page.
Status graft_first_page(const std::string& damaged, const std::string& copy);

}  // namespace stoker::daemon
