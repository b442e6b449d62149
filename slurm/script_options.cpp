#include "slurm/script_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace stoker::slurm {
namespace {

// Options that have a value, '_' written as '-'.
const std::set<std::string, std::less<>> kValues{
    "--kill-switch-path",
    "--save",
    "--load",
    "--save-interval",
    "--train-iters",
    "--train-samples",
    "--exit-duration-in-mins",  // Megatron-LM, -DeepSpeed
    "--save-dir",
    "--output-dir",  // Accelerate, Trainer
    "--checkpoint.folder",
    "--checkpoint.interval",
    "--training.steps",
    "--dump-folder",
    "--job.dump-folder",
    "--job.config-file",  // torchtitan
    "--config-file",
    "--config",
    "--config-name",  // nanotron, NeMo
    "exp-manager.explicit-log-dir",
    "exp-manager.exp-dir",
    "exp-manager.max-time-per-run",
    "trainer.max-steps",
    "trainer.max-time",  // NeMo
    "exp-manager.checkpoint-callback-params.every-n-train-steps"};
const std::set<std::string, std::less<>> kFlags{"--deepspeed", "--exit-signal-handler"};
// Of these the part behind the last dot is enough: --hparams.save_dir.
const std::set<std::string, std::less<>> kDotted{"--kill-switch-path", "--save-dir"};

// What these are given is said, not done.
constexpr std::array<std::string_view, 9> kTalk{"echo", "printf", ":",     "[", "[[",
                                                "test", "grep",   "mkdir", "rm"};

// The option's name in the table; "" = none of it.
std::string name_of(std::string_view word, bool hydra) {
  while (hydra && word.starts_with('+')) word.remove_prefix(1);
  std::string name(word);
  std::replace(name.begin(), name.end(), '_', '-');
  if (kValues.contains(name) || kFlags.contains(name)) return name;
  const auto dot = name.rfind('.');
  if (!name.starts_with("--") || dot == std::string::npos) return "";
  name = "--" + name.substr(dot + 1);
  return kDotted.contains(name) ? name : "";
}

// Lightning's "DD:HH:MM:SS".
std::optional<Duration> days_and_clock(std::string_view text) {
  std::array<std::uint64_t, 4> parts{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto colon = text.find(':');
    const auto n = whole_number(text.substr(0, colon));
    if (!n || *n > 100'000 || (colon == std::string_view::npos) != (i == 3)) return std::nullopt;
    parts[i] = *n;
    text.remove_prefix(std::min(colon, text.size() - 1) + 1);
  }
  return std::chrono::seconds(((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3]);
}

}  // namespace

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');  // Python's
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
    return std::nullopt;
  return value;
}

void ScriptOptions::put(std::string_view name, const ScriptWord& value, const std::string& folder) {
  found_[std::string(name)] =
      ScriptOption{std::string(name),
                   value.text,
                   value.raw,
                   folder,
                   value.known() && value.text.find('$') == std::string::npos,
                   value.text.find('*') == std::string::npos};
}

void ScriptOptions::take_word(const ScriptCommand& command, std::size_t& at) {
  const ScriptWord& word = command.words[at];
  const auto equals = word.text.find('=');
  const std::string name = name_of(word.text.substr(0, equals), equals != std::string::npos);
  if (name.empty()) return;
  if (kFlags.contains(name)) {
    put(name, {"yes", word.raw, false}, command.folder);
  } else if (equals != std::string::npos) {
    std::string value = word.text.substr(equals + 1);
    if (value.size() > 1 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0])
      value = value.substr(1, value.size() - 2);
    if (!value.empty()) put(name, {value, word.raw, false}, command.folder);
  } else if (name.starts_with('-') && at + 1 < command.words.size() &&
             !command.words[at + 1].text.starts_with("--")) {
    put(name, command.words[++at], command.folder);
  }
}

void ScriptOptions::take(const ScriptCommand& command) {
  if (std::find(kTalk.begin(), kTalk.end(), command.words[0].text) != kTalk.end()) return;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const ScriptWord& word = command.words[i];
    if (word.script) continue;
    if (word.text.find_first_of(" \t\n") == std::string::npos) {
      take_word(command, i);
      continue;
    }
    ScriptCommand inside{{}, command.folder};  // a list of options in one word
    for (std::string& part : split_words(word.text))
      inside.words.push_back({std::move(part), word.raw, false});
    for (std::size_t j = 0; j < inside.words.size(); ++j) take_word(inside, j);
  }
}

void ScriptOptions::take_values(const std::map<std::string, std::string>& values,
                                const std::string& folder) {
  ScriptOptions unused;
  for (const auto& [name, value] : values)
    if (!value.empty()) unused.take({{{"=", "", false}, {value + " ", "$" + name, false}}, folder});
  for (auto& [name, option] : unused.found_) found_.try_emplace(name, std::move(option));
}

const ScriptOption* ScriptOptions::find(std::string_view name) const {
  const auto found = found_.find(name);
  return found == found_.end() ? nullptr : &found->second;
}

const ScriptOption* ScriptOptions::checkpoints() const {
  for (const char* name :
       {"--save", "exp-manager.explicit-log-dir", "exp-manager.exp-dir", "--job.dump-folder",
        "--dump-folder", "--checkpoint.folder", "--save-dir", "--output-dir"})
    if (const ScriptOption* option = find(name)) return option;
  return nullptr;
}

std::string ScriptOptions::checkpoint_subfolder() const {
  if (has("--save")) return "";
  if (has("exp-manager.explicit-log-dir")) return "checkpoints";
  if (has("exp-manager.exp-dir")) return "";
  if (!has("--job.dump-folder") && !has("--dump-folder")) return "";
  const ScriptOption* folder = find("--checkpoint.folder");
  return folder == nullptr ? "checkpoint" : folder->known ? folder->text : "";
}

std::string ScriptOptions::checkpoint_format() const {
  if (!has("--save")) return "";
  return has("--deepspeed") ? "deepspeed" : "megatron";
}

const ScriptOption* ScriptOptions::own_file() const {
  for (const char* name : {"--job.config-file", "--config-file", "--config", "--config-name"})
    if (const ScriptOption* option = find(name)) return option;
  return nullptr;
}

std::optional<std::uint64_t> ScriptOptions::number_of(std::string_view name) const {
  const ScriptOption* option = find(name);
  return option != nullptr && option->known ? whole_number(option->text) : std::nullopt;
}

std::optional<Duration> ScriptOptions::leaves_after() const {
  if (const auto minutes = number_of("--exit-duration-in-mins"); minutes && *minutes < 1'000'000)
    return std::chrono::minutes(*minutes);
  for (const char* name : {"exp-manager.max-time-per-run", "trainer.max-time"})
    if (const ScriptOption* option = find(name); option != nullptr && option->known)
      return days_and_clock(option->text);
  return std::nullopt;
}

std::optional<std::uint64_t> ScriptOptions::last_iteration() const {
  if (has("--train-samples")) return std::nullopt;  // its ramp-up decides
  for (const char* name : {"--train-iters", "--training.steps", "trainer.max-steps"})
    if (const auto n = number_of(name)) return n;
  return std::nullopt;
}

std::optional<std::uint64_t> ScriptOptions::save_every() const {
  for (const char* name : {"--save-interval", "--checkpoint.interval",
                           "exp-manager.checkpoint-callback-params.every-n-train-steps"})
    if (const auto n = number_of(name)) return n;
  return std::nullopt;
}

}  // namespace stoker::slurm
