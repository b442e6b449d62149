// A shell script's lines as words, with the variables that it plainly assigns put in. No shell:
// what only running it could tell (command substitution, sourced files) is unknown and says so.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::slurm {

struct ScriptWord {
  std::string text;   // quotes gone, variables put in
  std::string raw;    // as it stands in the script
  bool known = true;  // false: holds something that only running it would tell
};

class ScriptWords {
 public:
  explicit ScriptWords(std::map<std::string, std::string> environment)
      : variables_(std::move(environment)) {}

  // Words of one logical line (continued lines joined). Plain assignments NAME=value and
  // export NAME=value are remembered and give no words.
  std::vector<ScriptWord> read(std::string_view line);
  // Splits only, as sbatch splits an #SBATCH line: blanks, quotes, '#' begins a comment.
  static std::vector<std::string> split(std::string_view line);

 private:
  ScriptWord expand(std::string_view raw) const;
  bool assign(std::string_view raw);
  std::map<std::string, std::string> variables_;
  std::map<std::string, bool> unknown_;
};

// Lines of a script, those that end with a backslash joined.
std::vector<std::string> logical_lines(std::string_view text);

}  // namespace stoker::slurm
