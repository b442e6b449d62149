// Names first, then the marks; sizes and times only of what is a candidate.
#include "watch/foreign_checkpoints.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <sys/stat.h>

#include "common/os/files.hpp"
#include "common/os/way.hpp"

namespace stoker::watch {
namespace {

constexpr std::size_t kMostEntries = 100'000;

std::optional<Iteration> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data() || end != text.data() + text.size())
    return std::nullopt;
  return Iteration(value);
}

bool remove_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

// Size and time of change of a regular file; empty: no file.
std::string print_of(const std::string& path) {
  struct stat entry {};
  if (::lstat(path.c_str(), &entry) != 0 || !S_ISREG(entry.st_mode)) return "";
  return fmt::format("{}:{}.{}", entry.st_size, entry.st_mtim.tv_sec, entry.st_mtim.tv_nsec);
}

// In a folder that others may write too (/scratch with a sticky bit), theirs would be loaded,
// converted, and hide the run's own.
bool counts(const std::string& directory, const std::string& name) {
  return os::check_put_here(directory + "/" + name).has_value();
}

// A mark names the newest checkpoint, and is written when that is whole.
std::optional<ForeignCheckpoint> by_mark(const std::string& directory, const std::string& mark) {
  const auto text = os::read_file(directory + "/" + mark, 4096, true);
  if (!text) return std::nullopt;
  std::string_view word = trimmed(*text);
  const std::string name(word);
  remove_prefix(word, "global_step");
  const auto iteration = number(word);
  if (!iteration) return std::nullopt;
  return ForeignCheckpoint{*iteration, name, name, true};
}

// A folder with the file that is written last.
std::optional<ForeignCheckpoint> by_folder(const std::string& directory, const std::string& name) {
  for (const auto& [prefix, last] :
       {std::pair("checkpoint-", "trainer_state.json"), std::pair("step-", ".metadata"),
        std::pair("step_", "random_states_0.pkl"), std::pair("", "_CHECKPOINT_METADATA")}) {
    std::string_view rest = name;
    if (!remove_prefix(rest, prefix)) continue;
    const auto iteration = number(rest);
    const std::string print = iteration ? print_of(directory + "/" + name + "/" + last) : "";
    if (!print.empty()) return ForeignCheckpoint{*iteration, name, print, true};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Iteration> iteration_of_file(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  constexpr std::array kEndings{".pt", ".pth", ".ckpt", ".safetensors", ".distcp"};
  const std::string_view ending = name.substr(dot);
  if (std::find(kEndings.begin(), kEndings.end(), ending) == kEndings.end()) return std::nullopt;
  name = name.substr(0, dot);
  if (const auto version = name.rfind("-v");  // Lightning: a second one of the same step
      version != std::string_view::npos && number(name.substr(version + 2)))
    name = name.substr(0, version);
  for (const std::string_view word : {"step", "iteration", "iter", "checkpoint", "ckpt", "model"}) {
    const auto at = name.rfind(word);
    if (at == std::string_view::npos) continue;
    std::string_view rest = name.substr(at + word.size());
    rest.remove_prefix(std::min(rest.find_first_not_of("_=-"), rest.size()));
    if (const auto iteration = number(rest)) return iteration;
    if (word == "step" && name.substr(at).starts_with("step="))  // "step=500-val_loss=2.31"
      if (const auto iteration = number(rest.substr(0, rest.find('-')))) return iteration;
  }
  return std::nullopt;
}

Result<std::optional<ForeignCheckpoint>> newest_foreign_checkpoint(const std::string& directory) {
  std::optional<ForeignCheckpoint> newest;
  const auto consider = [&newest](std::optional<ForeignCheckpoint> found) {
    if (found && (!newest || newest->iteration < found->iteration)) newest = std::move(found);
  };
  struct stat there {};
  if (::stat(directory.c_str(), &there) != 0 && errno == ENOENT) return newest;
  STOKER_TRY(names, os::list_directory(directory));
  if (names.size() > kMostEntries)
    return fail(fmt::format("{} has {} entries; none are read", directory, names.size()));
  for (const std::string& name : names) {
    std::optional<ForeignCheckpoint> found;
    if (name == "latest_checkpointed_iteration.txt" || name == "latest") {
      found = by_mark(directory, name);
    } else if (const auto iteration = iteration_of_file(name)) {
      if (std::string print = print_of(directory + "/" + name); !print.empty())
        found = ForeignCheckpoint{*iteration, name, std::move(print), false};
    } else {
      found = by_folder(directory, name);
    }
    if (found && counts(directory, name)) consider(std::move(found));
  }
  return newest;
}

std::optional<std::string> foreign_checkpoint_path(const std::string& directory,
                                                   Iteration iteration) {
  const auto names = os::list_directory(directory);
  if (!names) return std::nullopt;
  std::optional<std::string> file;
  for (const std::string& name : *names) {
    for (const std::string_view prefix :
         {"iter_", "global_step", "checkpoint-", "step-", "step_", ""}) {
      std::string_view rest = name;
      if (remove_prefix(rest, prefix) && number(rest) == iteration && counts(directory, name))
        return directory + "/" + name;
    }
    if (iteration_of_file(name) == iteration && counts(directory, name))
      file = directory + "/" + name;
  }
  return file;
}

std::optional<Iteration> CheckpointNews::take(const std::optional<ForeignCheckpoint>& newest) {
  const auto before = std::exchange(before_, newest);
  if (!std::exchange(looked_, true)) first_ = newest;
  if (!newest || newest == first_ || newest->iteration == told_) return std::nullopt;
  if (!newest->marked && newest != before) {  // it may still grow; the one before it does not
    const bool passed = before && before != first_ && before->iteration < newest->iteration &&
                        before->iteration != told_;
    if (!passed) return std::nullopt;
    told_ = before->iteration;
    return told_;
  }
  told_ = newest->iteration;
  return told_;
}

std::optional<Iteration> CheckpointNews::last(const std::optional<ForeignCheckpoint>& newest) {
  if (!looked_ || !newest || newest == first_ || newest->iteration == told_) return std::nullopt;
  told_ = newest->iteration;
  return told_;
}

}  // namespace stoker::watch
