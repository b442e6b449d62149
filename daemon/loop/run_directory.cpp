// The folders of a run, and who may write in them.
#include "wire/run_directory.hpp"

#include <filesystem>
#include <fmt/format.h>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"
#include "common/os/way.hpp"
#include "common/os/writers.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"

namespace stoker::daemon {

std::string shared_directory(const std::string& directory, const RunName& other) {
  return fmt::format("{} is the directory of the run {}: each run needs one of its own", directory,
                     other.text);
}

Status check_alone(const std::string& directory, const std::map<RunName, std::string>& others) {
  std::error_code error;
  const auto here = std::filesystem::weakly_canonical(directory, error);
  for (const auto& [name, other] : others)
    if (!here.empty() && other == here) return fail(shared_directory(directory, name));
  return ok();
}

Status make_run_directory(const core::RunPolicy& policy) {
  const auto gid = policy.group.empty() ? std::nullopt : group_id(policy.group);
  if (!policy.group.empty() && !gid)
    return fail("there is no such group", policy.group, "name another in RUN.yaml");
  STOKER_TRY_STATUS(close_run_directory(policy));
  // Who could write there before may have put anything there: links, a training's cache.
  if (os::exists(policy.directory)) STOKER_TRY_STATUS(os::check_entries(policy.directory));
  struct Folder {
    const char* name;
    mode_t mode, shared;  // without a group, and with one
  };
  // Orders hold train.environment; claims are of no interest to others.
  constexpr Folder kFolders[] = {
      {"", 0700, 02750},
      {"/orders", 0700, 0700},
      {"/claims", 0700, 0700},
      {"/switch", 0700, 03770},  // sticky: a member removes no file of another
      {"/checkpoints", 0755, 02750}};
  for (const Folder& folder : kFolders) {
    const std::string path = policy.directory + folder.name;
    const bool there = os::exists(path);
    STOKER_TRY_STATUS(os::make_directories(path, 0700));
    const bool is_private = folder.mode == folder.shared;
    if (there && !is_private && (!gid || *folder.name == '\0')) continue;  // it keeps its mode
    const std::string self = *folder.name == '\0' ? path + "/." : path;  // it may be behind a link
    STOKER_TRY_STATUS(os::share_folder(self, gid, gid ? folder.shared : folder.mode,
                                       "cannot give it to group " + policy.group));
  }
  return ok();
}

Status close_run_directory(const core::RunPolicy& policy) {
  std::vector<std::string> closed;
  Status done = wire::close_run_directory(policy.directory, closed);
  // Agents obey who may write there: with no group in RUN.yaml (any more) that is the owner alone.
  const std::string switches = policy.directory + "/switch";
  const std::string& checkpoints = policy.checkpoints.directory;
  if (done && checkpoints.starts_with('/')) done = os::check_way(checkpoints);
  if (done && policy.group.empty()) {
    const auto changed = os::close_to_others(switches);
    if (!changed) done = fail(changed.error());
    if (changed && *changed) closed.push_back(switches);
  }
  for (const std::string& path : closed)
    log(LogLevel::Warning, path + ": others could write there; stokerd took that permission away");
  return done;
}

}  // namespace stoker::daemon
