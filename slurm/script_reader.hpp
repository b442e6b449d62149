// What the commands of a shell script would be given, as far as reading shows: the values that it
// plainly assigns are put in, strings that it hands to another shell (`bash -c "…"`, eval,
// here-documents) are read like itself. Nothing is executed; what only running it would tell
// (substituted commands, sourced files) is marked in the very word, and only there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/secrets.hpp"
#include "slurm/script_words.hpp"

namespace stoker::slurm {

inline constexpr char kUnknown = '\0';  // stands for what is unknown; no script holds it

struct ScriptWord {
  std::string text;     // quotes gone, values put in; SLURM's own variables are *
  std::string raw;      // as it stands in the script
  bool script = false;  // its text was read as commands of its own
  [[nodiscard]] bool known() const { return text.find(kUnknown) == std::string::npos; }
};

struct ScriptCommand {
  std::vector<ScriptWord> words;  // none is empty
  std::string folder;             // where it runs; "" = unknown
};

class ScriptReader {
 public:
  using Take = std::function<void(const ScriptCommand&)>;

  // `folder`: where the script starts.
  ScriptReader(std::map<std::string, std::string> environment, std::string folder)
      : variables_(std::move(environment)), start_(folder), folder_(std::move(folder)) {
    // The script may be a colleague's, who reads the RUN.yaml that is made of it: of the reader's
    // variables only paths and his own name come in, no password, however it is called.
    std::erase_if(variables_, [](const auto& entry) {
      const auto& [name, value] = entry;
      const bool harmless = value.starts_with('/') || name == "USER" || name == "LOGNAME";
      return !harmless || core::names_secret(name);
    });
  }

  void read(std::string_view text, const Take& take);
  // What the script assigned, by name.
  [[nodiscard]] std::map<std::string, std::string> assigned() const;

 private:
  enum class Text : std::uint8_t { Script, Value, Document };  // Value: it stays one word

  void read_command(const RawCommand& raw, const Take& take);
  void read_nested(ScriptCommand& command, const RawCommand& raw, const Take& take);
  void read_text(const std::string& text, const Take& take);
  void change_folder(const ScriptCommand& command);
  std::size_t skip_keywords(const RawCommand& raw);

  bool assign(const std::string& raw);
  void set(const std::string& name, std::string value);
  [[nodiscard]] std::optional<std::string> value_of(const std::string& name) const;

  std::string expand(std::string_view raw, Text kind);
  void expand_dollar(std::string_view raw, std::size_t& at, bool splits, std::string& out);
  std::string parameter(std::string_view inside, bool splits);
  std::string command_value(std::string_view inside);
  std::vector<ScriptWord> words_of(const std::string& raw);

  std::map<std::string, std::string> variables_;
  std::map<std::string, bool> assigned_;
  std::string start_, folder_;
  int branch_ = 0;                             // inside if, for, while, case: may not be run
  bool conditional_ = false;                   // this command may not be run
  int depth_ = 0;                              // of shells in shells
  int expanding_ = 0;                          // of values in values
  std::size_t nested_ = 0, nested_bytes_ = 0;  // shells read so far, and their text
  std::size_t spent_ = 0;                      // bytes of values put in
  int endless_ = 0;                            // here-documents without an end
};

}  // namespace stoker::slurm
