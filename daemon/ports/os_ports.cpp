// Real ports over common/os.
#include "daemon/ports/os_ports.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <sys/stat.h>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"
#include "common/os/random.hpp"
#include "common/os/way.hpp"

namespace stoker::daemon {

EngineClock::EngineClock(std::optional<std::pair<Instant, WallTime>> last, WallTime wall,
                         Instant monotonic)
    : started_(monotonic) {
  if (last) {
    away_ = std::max(Duration::zero(), wall - last->second);
    base_ = last->first + away_;
  } else {
    base_ = Instant(wall.time_since_epoch());
  }
}

Result<std::string> OsFiles::read(const std::string& path, std::size_t limit) {
  return os::read_file(path, limit, true);  // what it says is published: no link chooses the file
}
Status OsFiles::replace(const std::string& path, std::string_view content) {
  struct stat info {};
  const bool there = ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  // A file of the user's own (a resume point of a training) keeps its readers.
  return os::publish_file(path, content, os::Durability::Synced,
                          there ? info.st_mode & 0777 & ~kOthersWrite : 0600);
}
Status OsFiles::append(const std::string& path, std::string_view content) {
  return os::append_file(path, content, os::Durability::Synced);
}
Result<bool> OsFiles::create_once(const std::string& path, std::string_view content) {
  return os::claim_file(path, content, 0600);
}
Result<bool> OsFiles::exists(const std::string& path) {
  return os::exists(path);
}
Status OsFiles::check_put_here(const std::string& path) {
  return os::check_put_here(path);
}
std::string OsFiles::author(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return "";
  return os::user_name_of(info.st_uid) + " at " +
         format_rfc3339(WallTime(std::chrono::seconds(info.st_mtim.tv_sec)));
}
Status OsFiles::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return ok();
  const int error = errno;
  // A folder has that name: in a shared folder others can foresee it.
  if ((error == EISDIR || error == ENOTEMPTY || error == EEXIST) &&
      ::rename(from.c_str(), (to + "." + os::random_hex(8)).c_str()) == 0)
    return ok();
  return fail(errno_error(error, "cannot rename to " + to, from));
}
Status OsFiles::remove_folder(const std::string& base, const std::string& folder,
                              const std::vector<std::string>& files) {
  return os::remove_own_folder(base, folder, files);
}
Status OsFiles::make_directories(const std::string& path, unsigned mode) {
  if (os::exists(path)) return ok();
  STOKER_TRY_STATUS(os::make_directories(path, mode));
  return os::set_mode(path, mode, "cannot set the mode");  // independent of our umask
}
Result<std::vector<std::string>> OsFiles::list(const std::string& path) {
  return os::list_directory(path);
}
Result<std::string> OsFiles::tree(const std::string& path) {
  return os::tree_print(path);
}

Result<os::CommandOutput> OsProcesses::run(const os::SpawnOptions& options, Duration deadline) {
  return os::run_command(options, deadline);
}

void SchedulerRouter::set_place(const RunName& run, const core::SchedulerPlace& place) {
  const std::scoped_lock lock(mutex_);
  places_[run] = place;
}

core::Scheduler& SchedulerRouter::of(const core::SchedulerPlace& place) {
  switch (place.kind) {
    case core::SchedulerKind::Local: return *local_;
    case core::SchedulerKind::Slurm: {
      const std::scoped_lock lock(mutex_);
      auto& slurm = slurm_[place];
      if (!slurm) slurm = make_slurm_(place);
      return *slurm;
    }
  }
  STOKER_CHECK(false, "unknown scheduler kind");
}

core::Scheduler& SchedulerRouter::of(core::SchedulerKind kind) {
  core::SchedulerPlace place{kind, {}, {}};
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [run, at] : places_)
      if (at.kind == kind) {
        place = at;
        break;
      }
  }
  return of(place);
}

core::Scheduler& SchedulerRouter::of(const Token& token) {
  std::string name = token.text;
  for (int part = 0; part < 2; ++part)
    if (const auto dash = name.rfind('-'); dash != std::string::npos) name.resize(dash);
  core::SchedulerPlace place;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = places_.find(RunName(name)); found != places_.end())
      place = found->second;
  }
  return of(place);
}

core::PortResult<JobId> SchedulerRouter::submit(const core::SubmitRequest& request) {
  return of(core::place_of(request.policy.scheduler)).submit(request);
}
core::PortResult<std::monostate> SchedulerRouter::cancel(const core::Cancel& cancel) {
  return of(cancel.token).cancel(cancel);
}
core::PortResult<std::monostate> SchedulerRouter::set_exclusions(
    const core::SetExclusions& change) {
  return of(change.token).set_exclusions(change);
}
core::PortResult<std::string> SchedulerRouter::drain(const core::DrainNode& drain) {
  return of(drain.scheduler).drain(drain);
}
core::PortResult<std::monostate> SchedulerRouter::signal(const core::SignalJob& signal) {
  return of(signal.token).signal(signal);
}
core::JobProbed SchedulerRouter::probe(const core::ProbeRequest& request) {
  return of(request.probe.token).probe(request);
}
core::PortResult<std::optional<JobId>> SchedulerRouter::look_up(const Token& token) {
  return of(token).look_up(token);
}
Result<core::SchedulerView> SchedulerRouter::observe(const std::vector<RunName>& runs) {
  std::map<core::SchedulerPlace, std::vector<RunName>> by_place;
  {
    const std::scoped_lock lock(mutex_);
    for (const RunName& run : runs)
      if (const auto found = places_.find(run); found != places_.end())
        by_place[found->second].push_back(run);
  }
  core::SchedulerView all;
  for (const auto& [place, names] : by_place) {
    STOKER_TRY(view, of(place).observe(names));
    all.jobs.insert(all.jobs.end(), view.jobs.begin(), view.jobs.end());
    all.nodes.insert(all.nodes.end(), view.nodes.begin(), view.nodes.end());
  }
  return all;
}

}  // namespace stoker::daemon
