// The options by which a foreign training says where it saves, how it is asked to exit, and when it
// does so by itself: Megatron-LM and what came of it, NeMo, torchtitan, Accelerate.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/time.hpp"
#include "slurm/script_reader.hpp"

namespace stoker::slurm {

struct ScriptOption {
  std::string name;  // as in the table: "--save"
  std::string text, raw;
  std::string folder;  // where the command runs; "" = unknown
  bool known = false;
  bool everywhere = true;  // false: another one in each job
};

class ScriptOptions {
 public:
  void take(const ScriptCommand& command);
  // Options in values that no command was seen to use: another script takes them from the
  // environment.
  void take_values(const std::map<std::string, std::string>& values, const std::string& folder);

  [[nodiscard]] const ScriptOption* find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  // Each answer is empty where the script does not say.
  [[nodiscard]] const ScriptOption* kill_switch() const { return find("--kill-switch-path"); }
  [[nodiscard]] const ScriptOption* checkpoints() const;  // the folder that it saves into
  [[nodiscard]] std::string checkpoint_subfolder() const;
  [[nodiscard]] std::string checkpoint_format() const;  // of checkpoints.format; "" = unknown
  [[nodiscard]] const ScriptOption* own_file() const;   // a configuration that says the rest
  [[nodiscard]] std::optional<Duration> leaves_after() const;
  [[nodiscard]] std::optional<std::uint64_t> last_iteration() const;
  [[nodiscard]] std::optional<std::uint64_t> save_every() const;

 private:
  void take_word(const ScriptCommand& command, std::size_t& at);
  void put(std::string_view name, const ScriptWord& value, const std::string& folder);
  [[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view name) const;
  std::map<std::string, ScriptOption, std::less<>> found_;
};

// "100", "220_000_000"; nothing for anything else.
std::optional<std::uint64_t> whole_number(std::string_view text);

}  // namespace stoker::slurm
