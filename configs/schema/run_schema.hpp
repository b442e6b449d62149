// RUN.yaml: the strict schema of a run's configuration. Fills core::RunPolicy with the defaults of
// the contract (docs/configuration.md), or reports every error with its place. Pure: what only the
// machine can tell (commands, directories, TRAIN.yaml) is judged by run_checks.hpp. Values that
// this version cannot honour are refused at their position, never ignored.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "configs/schema/yaml_reader.hpp"
#include "core/policy.hpp"

namespace stoker::configs {

// A kind of alert sink that this build knows, and its options beyond `kind`. The alerts library
// owns the table; configs may not include it, so the caller hands it in.
struct SinkKind {
  std::string kind;
  std::vector<std::string> required, optional;
};

struct RunSchemaContext {
  std::string file;             // as errors name it
  std::string config_path;      // of RUN.yaml, absolute
  std::string state_directory;  // absolute; the default run directory is below it
  std::vector<SinkKind> sinks;  // what alerts.sinks may name
  // What options alone cannot say ("either url or url_file"); "" = good. Empty: not judged.
  std::function<std::string(const core::SinkPolicy&)> sink_error;
};

struct RunConfigFile {
  core::RunPolicy policy;
  std::string file;
  Diagnostics errors;                  // empty: `policy` may be used
  std::vector<EffectiveValue> values;  // every value in force with its origin
  std::string effective;               // the same as YAML, each line with its origin

  // Where the value of a dotted key stands ("scheduler.nodes", "train.command.[0]"); the nearest
  // enclosing key that was given when it is a default.
  [[nodiscard]] Position position_of(std::string_view dotted) const;
  // Adds an error there: "key: message".
  void add_error(std::string_view dotted, const std::string& message);
};

RunConfigFile read_run_config(std::string_view text, const RunSchemaContext& context);

// [A-Za-z0-9][A-Za-z0-9._-]{0,63}
bool is_run_name(std::string_view name);

// `path` as it counts from `directory`, lexically normal; an absolute one stays.
std::string path_from(const std::string& directory, const std::string& path);

}  // namespace stoker::configs
