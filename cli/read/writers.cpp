#include "cli/read/writers.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/writers.hpp"
#include "configs/schema/run_checks.hpp"

namespace stoker::cli {
namespace {

constexpr const char* kSo = "and so decides what is executed as you";

bool is_of_another(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && info.st_uid != ::geteuid() && info.st_uid != 0;
}

std::string fix_of(const std::string& path) {
  return is_of_another(path) ? "use a copy that only you can write"
                             : "keep it where only you can write: chmod go-w " + path;
}

bool is_script(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  if (path.ends_with(".py") || path.ends_with(".sh")) return true;
  std::array<char, 2> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return head == std::array{'#', '!'};
}

}  // namespace

std::optional<OtherWriter> other_writer_of(const std::string& path) {
  if (const std::string who = os::other_writer(path); !who.empty())
    return OtherWriter{fmt::format("{}: {} can write it, {}", path, who, kSo), fix_of(path)};
  // Of a link both count: who may lead it elsewhere, and who may exchange what it leads to.
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  for (const std::filesystem::path& file : {std::filesystem::absolute(path, error), real}) {
    const std::string folder = file.parent_path();
    if (const std::string who = os::other_writer(folder); !who.empty())
      return OtherWriter{fmt::format("{}: {} can put another file in the place of {}, {}", folder,
                                     who, file.filename().string(), kSo),
                         fix_of(folder)};
  }
  return std::nullopt;
}

std::vector<std::string> files_executed(const std::string& run_file,
                                        const core::RunPolicy& policy) {
  const core::TrainPolicy& train = policy.train;
  std::vector<std::string> files{run_file};
  const auto add = [&files](const std::string& path) {
    if (std::find(files.begin(), files.end(), path) == files.end()) files.push_back(path);
  };
  const auto add_scripts = [&](const std::vector<std::string>& command) {
    for (const std::string& word : command)
      if (const std::string path = configs::path_from(policy.directory, word); is_script(path))
        add(path);
  };
  for (const std::string& path : {train.batch_script, train.setup, train.agent})
    if (os::exists(path)) add(path);
  add_scripts(train.command);
  for (const core::FollowerPolicy& follower : policy.after) add_scripts(follower.command);
  return files;
}

void warn_of_writers(const Console& console, const std::vector<std::string>& paths) {
  std::set<std::string> said;
  for (const std::string& path : paths)
    if (const auto other = other_writer_of(path); other && said.insert(other->found).second)
      console.say(other->found + "; " + other->fix);
}

}  // namespace stoker::cli
