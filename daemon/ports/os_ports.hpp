// The real Clock, Files and Processes ports, and the router that sends a run's submissions to the
// scheduler its policy names. All but the clock block: effect threads call them, never the loop.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "core/engine/ports.hpp"

namespace stoker::daemon {

// Engine time: it goes on where the journal ended (plus the time away by wall clock, never less
// than nothing) and is driven by CLOCK_MONOTONIC since. Any thread.
class EngineClock final : public core::Clock {
 public:
  // last: engine and wall time of the newest journal row; empty for a new journal.
  explicit EngineClock(std::optional<std::pair<Instant, WallTime>> last, WallTime wall = wall_now(),
                       Instant monotonic = monotonic_now());
  Instant now() override { return at(monotonic_now()); }
  WallTime wall() override { return wall_now(); }
  [[nodiscard]] Instant at(Instant monotonic) const { return base_ + (monotonic - started_); }
  // How long the daemon was away; 0 for a new journal or a wall clock that went back.
  [[nodiscard]] Duration away() const { return away_; }

 private:
  Instant base_, started_;
  Duration away_{};
};

class OsFiles final : public core::Files {
 public:
  Result<std::string> read(const std::string& path, std::size_t limit) override;
  Status replace(const std::string& path, std::string_view content) override;
  Status append(const std::string& path, std::string_view content) override;
  Result<bool> create_once(const std::string& path, std::string_view content) override;
  Result<bool> exists(const std::string& path) override;
  Status check_put_here(const std::string& path) override;
  std::string author(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove_folder(const std::string& base, const std::string& folder,
                       const std::vector<std::string>& files) override;
  Status make_directories(const std::string& path, unsigned mode) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<std::string> tree(const std::string& path) override;
};

class OsProcesses final : public core::Processes {
 public:
  Result<os::CommandOutput> run(const os::SpawnOptions& options, Duration deadline) override;
};

// One Scheduler over both: each run is at the one of its policy.
class SchedulerRouter final : public core::Scheduler {
 public:
  // `make_slurm`: a scheduler for a way in to SLURM, made when the first run needs it.
  using MakeSlurm = std::function<std::unique_ptr<core::Scheduler>(const core::SchedulerPlace&)>;
  SchedulerRouter(std::unique_ptr<core::Scheduler> local, MakeSlurm make_slurm)
      : local_(std::move(local)), make_slurm_(std::move(make_slurm)) {}
  void set_place(const RunName& run, const core::SchedulerPlace& place);

  core::PortResult<JobId> submit(const core::SubmitRequest& request) override;
  core::PortResult<std::monostate> cancel(const core::Cancel& cancel) override;
  core::PortResult<std::monostate> set_exclusions(const core::SetExclusions& change) override;
  core::PortResult<std::string> drain(const core::DrainNode& drain) override;
  core::PortResult<std::monostate> signal(const core::SignalJob& signal) override;
  core::JobProbed probe(const core::ProbeRequest& request) override;
  core::PortResult<std::optional<JobId>> look_up(const Token& token) override;
  // All runs of one place; the observer asks each scheduler on its own thread.
  Result<core::SchedulerView> observe(const std::vector<RunName>& runs) override;

  core::Scheduler& of(const core::SchedulerPlace& place);

 private:
  // The run's name is the token up to its last two parts: <run>-<order>-<random>.
  core::Scheduler& of(const Token& token);

  // For orders that name no run: the first of its kind.
  core::Scheduler& of(core::SchedulerKind kind);

  std::unique_ptr<core::Scheduler> local_;
  MakeSlurm make_slurm_;
  std::mutex mutex_;
  std::map<core::SchedulerPlace, std::unique_ptr<core::Scheduler>> slurm_;
  std::map<RunName, core::SchedulerPlace> places_;
};

}  // namespace stoker::daemon
