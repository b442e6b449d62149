// Journals on real files for tests: opened, filled, damaged.
#pragma once

#include <doctest/doctest.h>
#include <fstream>

#include "daemon/journal/sqlite_journal.hpp"
#include "tests/daemon/fixtures.hpp"

namespace stoker::daemon::test {

inline std::unique_ptr<SqliteJournal> open(const std::string& path) {
  auto journal = SqliteJournal::open({path, false, {}});
  REQUIRE_MESSAGE(journal, (journal ? "" : journal.error().message()));
  return std::move(*journal);
}

inline core::EventBody note(std::uint64_t n) {
  return core::SchedulerBlind{"answer " + std::to_string(n) + " was torn"};
}

inline void fill(const std::string& path, std::uint64_t rows) {
  auto journal = open(path);
  for (std::uint64_t n = 1; n <= rows; ++n)
    REQUIRE(journal->append({row(n, note(n))}, state(n, "state " + std::to_string(n)), {}));
}

// Flips one bit inside the first occurrence of `text` in the file.
inline void flip(const std::string& path, const std::string& text) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto at = bytes.find(text);
  REQUIRE(at != std::string::npos);
  file.clear();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(bytes[at] ^ 1));
}

}  // namespace stoker::daemon::test
