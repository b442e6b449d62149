#include "cli/read/writers.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/way.hpp"
#include "common/os/writers.hpp"
#include "configs/schema/run_checks.hpp"

namespace stoker::cli {
namespace {

constexpr const char* kSo = "and so decides what is executed as you";

bool is_of_another(const std::string& path) {
  return os::exists(path) && !os::check_owner(path);
}

std::string fix_of(const std::string& path) {
  if (is_of_another(path)) return "use a copy that only you can write";
  const bool ours = ::access(path.c_str(), W_OK) == 0;
  return "keep it where only you can write" + (ours ? ": chmod go-w " + path : "");
}

// A folder in which programs look for files of any name.
std::optional<OtherWriter> other_maker_in(const std::string& folder) {
  const std::string who = os::other_maker(folder);
  if (who.empty()) return std::nullopt;
  return OtherWriter{fmt::format("{}: {} can put files there, {}", folder, who, kSo),
                     is_of_another(folder) || ::access(folder.c_str(), W_OK) != 0
                         ? "name a folder that only you can write"
                         : "name a folder that only you can write, or chmod go-w " + folder};
}

// In a user namespace (a container without root) folders of the host have an owner that it does not
// know: who that is cannot be said.
bool has_unknown_owner(const std::string& folder) {
  constexpr uid_t kOverflow = 65534;
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || info.st_uid != kOverflow) return false;
  std::istringstream map(os::read_file("/proc/self/uid_map").value_or(""));
  std::uint64_t inside = 0, outside = 0, count = 0;
  map >> inside >> outside >> count;
  return count <= kOverflow;
}

// Who may put another file in its place, or another folder in the place of one that it lies in:
// that takes no more than writing the folder above.
std::optional<OtherWriter> other_replacer_of(std::filesystem::path path) {
  std::error_code error;
  for (auto folder = path.parent_path(); folder != path; folder = path.parent_path()) {
    if (const std::string who = os::other_writer(folder);
        !who.empty() && !has_unknown_owner(folder))
      return OtherWriter{
          fmt::format("{}: {} can put another {} in the place of {}, {}", folder.string(), who,
                      std::filesystem::is_directory(path, error) ? "folder" : "file",
                      path.filename().string(), kSo),
          fix_of(folder)};
    path = folder;
  }
  return std::nullopt;
}

// What is not there yet: who may make it, or the first folder on the way that is missing.
std::optional<OtherWriter> other_maker_of(std::filesystem::path missing) {
  std::error_code error;
  for (auto folder = missing.parent_path(); folder != missing; folder = missing.parent_path()) {
    if (std::filesystem::is_directory(folder, error)) {
      const std::string who = os::other_maker(folder);
      if (who.empty()) return other_replacer_of(folder);
      return OtherWriter{
          fmt::format("{} is not there: {} can make it, {}", missing.string(), who, kSo),
          "leave it out, or make it where only you can write"};
    }
    missing = folder;
  }
  return std::nullopt;
}

}  // namespace

std::optional<OtherWriter> other_writer_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return other_maker_of(std::filesystem::absolute(path, error));
  if (std::filesystem::is_directory(path, error))
    if (auto maker = other_maker_in(path)) return maker;
  if (const std::string who = os::other_writer(path); !who.empty())
    return OtherWriter{fmt::format("{}: {} can write it, {}", path, who, kSo), fix_of(path)};
  if (const Status way = os::check_way(std::filesystem::absolute(path, error)); !way)
    return OtherWriter{fmt::format("{}: {}, {}", path, way.error().what, kSo),
                       "name what the link leads to"};
  // Of a link both count: who may lead it elsewhere, and who may exchange what it leads to.
  for (const std::filesystem::path& file :
       {std::filesystem::absolute(path, error), std::filesystem::canonical(path, error)})
    if (auto other = other_replacer_of(file)) return other;
  return std::nullopt;
}

std::optional<OtherWriter> other_writer_of(const Executed& file) {
  auto other = other_writer_of(file.path);
  if (other && !file.why.empty()) other->found += fmt::format(" ({})", file.why);
  return other;
}

void warn_of_writers(const Console& console, const std::vector<Executed>& files) {
  std::set<std::string> said;
  for (const Executed& file : files)
    if (const auto other = other_writer_of(file); other && said.insert(other->found).second)
      console.say(other->found + "; " + other->fix);
}

std::optional<OtherWriter> taker_of_checkpoint_names(const core::RunPolicy& policy) {
  const std::string folder = configs::path_from(policy.directory, policy.checkpoints.directory);
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || info.st_uid == ::geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return std::nullopt;
  return OtherWriter{
      fmt::format(
          "{} (checkpoints.directory): it is {}'s, and others may write there: they can take "
          "the names of checkpoints, and then none is saved",
          folder, os::user_name_of(info.st_uid)),
      "make a folder of your own in it"};
}

std::optional<OtherWriter> other_maker_of_the_end(const core::RunPolicy& policy) {
  const std::filesystem::path named = policy.train.finished.file;
  // Of a relative name the run directory, which stoker closes before each submission.
  if (named.empty() || !named.has_parent_path()) return std::nullopt;
  const std::string path = configs::path_from(policy.directory, named);
  const std::string folder = std::filesystem::path(path).parent_path();
  const std::string who = os::other_maker(folder);
  if (who.empty()) return std::nullopt;
  return OtherWriter{fmt::format("{} (train.finished.file): {} can put files into {}, also another "
                                 "file of yours under this name, which ends the run",
                                 path, who, folder),
                     "keep it in a folder where only you can write"};
}

std::vector<OtherWriter> other_makers_of_logs(const core::RunPolicy& policy) {
  std::vector<OtherWriter> found;
  for (const std::string& pattern : policy.watch.logs) {
    const auto first = pattern.find_first_of("*?[");
    if (first == std::string::npos) continue;
    const auto end = pattern.rfind('/', first);
    if (end == std::string::npos) continue;
    const std::string folder =
        configs::path_from(policy.directory, pattern.substr(0, std::max<std::size_t>(end, 1)));
    std::error_code error;
    const std::string who =
        std::filesystem::is_directory(folder, error) ? os::other_maker(folder) : "";
    if (!who.empty())
      found.push_back({fmt::format("{} (watch.logs): {} can put files into {}, which then count as "
                                   "logs of this training",
                                   pattern, who, folder),
                       "keep the logs in a folder where only you can write"});
  }
  return found;
}

void warn_of_writers(const Console& console, const std::string& run_file,
                     const core::RunPolicy& policy) {
  warn_of_writers(console, files_executed(run_file, policy));
  for (const auto& other : {taker_of_checkpoint_names(policy), other_maker_of_the_end(policy)})
    if (other) console.say(other->found + "; " + other->fix);
  for (const OtherWriter& other : other_makers_of_logs(policy))
    console.say(other.found + "; " + other.fix);
}

}  // namespace stoker::cli
