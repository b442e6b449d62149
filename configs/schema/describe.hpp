// docs/configuration.md: every key of RUN.yaml and TRAIN.yaml with its default, unit and meaning.
// Keys and defaults come from the schema itself (what it reads from the smallest file); only the
// meanings are written here, and a test fails on a key without one.
#pragma once

#include <string>
#include <vector>

namespace stoker::configs {

struct KeyMeaning {
  const char* key;      // dotted
  const char* unit;     // "duration", "nodes", "text" …
  const char* meaning;  // Markdown, one cell
};
const std::vector<KeyMeaning>& run_key_meanings();
const std::vector<KeyMeaning>& train_key_meanings();

// A key and its default as the schema reads them; a required key has no default.
struct SchemaKey {
  std::string key, fallback;
};
std::vector<SchemaKey> run_schema_keys();
std::vector<SchemaKey> train_schema_keys();

std::string render_configuration();

}  // namespace stoker::configs
