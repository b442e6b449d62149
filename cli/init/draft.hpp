// Draft: a RUN.yaml in the making, for `stoker init`: each value with where it comes from. What is
// assumed is marked so in its comment, and `stoker check` counts it as assumed until a person takes
// the mark away.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/known.hpp"
#include "common/json.hpp"

namespace stoker::cli::init {

enum class How { Detected, Answered, Assumed };

}  // namespace stoker::cli::init

template <>
struct stoker::EnumNames<stoker::cli::init::How> {
  static constexpr std::array names{"detected", "answered", "assumed"};
};

namespace stoker::cli::init {

struct Entry {
  std::string key;    // dotted, two levels at most: "scheduler.nodes"
  std::string value;  // as YAML, one line
  How how = How::Assumed;
  std::string reason;  // where it was found, or why it is assumed
  STOKER_FIELDS(Entry, key, value, how, reason)
};

struct Draft {
  std::string source;                  // "batch_script", "shell_script", "python", "command"
  std::string path;                    // of the script, absolute; "" = a command
  std::vector<std::string> launchers;  // the outermost first
  std::vector<Entry> entries;          // one a key
  std::vector<std::string> notes;      // what else was seen

  [[nodiscard]] const Entry* find(std::string_view key) const;
  // Replaces what was there.
  void put(std::string key, std::string value, How how, std::string reason);
};

// As YAML scalars: quoted where a plain one could be taken for something else.
std::string yaml_text(const std::string& text);
std::string yaml_list(const std::vector<std::string>& texts);

// RUN.yaml. `not_known`: of `stoker check`, as comments at the end.
std::string draft_yaml(const Draft& draft, const Knowledge::Rows& not_known);

}  // namespace stoker::cli::init
