// The corpus of captured logs with their right diagnoses; it is not in the repository (shared/), so
// tests that need it skip aloud.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/os/files.hpp"

namespace stoker::diagnose {

inline std::string corpus_folder() {
  const char* named = std::getenv("STOKER_CORPUS");
  if (named != nullptr) return named;
  return std::string(STOKER_SOURCE_DIR) + "/../shared/corpus";
}

// The rows of dev/index.jsonl; empty, with a line "SKIPPED:", where there is none.
inline std::vector<Json> corpus_index() {
  std::vector<Json> rows;
  const auto text = os::read_file(corpus_folder() + "/dev/index.jsonl");
  if (!text) {
    std::cout << "SKIPPED: no corpus at " << corpus_folder() << "\n";
    return rows;
  }
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto newline = rest.find('\n');
    const auto row = parse_json(rest.substr(0, newline), "index.jsonl");
    if (row) rows.push_back(*row);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
  }
  return rows;
}

}  // namespace stoker::diagnose
