// LogFollow: the training's output of a run: the end of the newest generation's main.log, or of the
// ranks' own files, and what is written from then on: through renamed, cut off and replaced files
// and into the next generation.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/read/line_file.hpp"

namespace stoker::cli {

struct LogFilter {
  std::set<std::string> nodes;    // empty: all
  std::set<std::uint32_t> ranks;  // empty: all
  [[nodiscard]] bool empty() const { return nodes.empty() && ranks.empty(); }
};

// "3", "0-3,7". Errors: anything else, or more than a million.
Result<std::set<std::uint32_t>> parse_ranks(const std::string& text);

struct LogLine {
  std::string_view generation;        // "gen-000017"
  std::string_view node;              // "" = unknown
  std::optional<std::uint32_t> rank;  // empty: unknown
  std::string_view text;              // without "[node:rank] "
  std::string_view whole;             // as in the file
};

class LogFollow {
 public:
  using Visit = std::function<void(const LogLine&)>;
  LogFollow(std::string run_directory, LogFilter filter);

  // The last `count` wanted lines. Errors: no generation, or a file that cannot be read.
  Status last(std::uint64_t count, bool unfinished, const Visit& visit);
  // What was written since. A file that is gone is waited for.
  Status more(const Visit& visit);
  // Whether lines of several files are shown.
  [[nodiscard]] bool several() const { return open_.size() > 1; }

 private:
  struct Open {
    std::string path;
    std::optional<std::uint32_t> rank;  // whose own file it is
    std::optional<LineFile> file;
    std::uint64_t offset = 0;
  };
  [[nodiscard]] std::vector<Open> choose(const std::string& generation) const;
  Status drain(Open& open, bool unfinished, const Visit& visit) const;
  [[nodiscard]] bool tell(const Open& open, std::string_view line, const Visit& visit) const;
  [[nodiscard]] Result<std::uint64_t> start_of(const Open& open, std::uint64_t count) const;

  std::string directory_;
  LogFilter filter_;
  std::string generation_;
  std::vector<Open> open_;
};

}  // namespace stoker::cli
