// The ports in memory: a clock that stands until it is moved, files in a map, an outbox that only
// remembers, and a scheduler whose answers are scripted. The engine cannot tell them from the real
// ones.
#pragma once

#include <cerrno>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/engine/ports.hpp"

namespace stoker::sim {

class SimClock : public core::Clock {
 public:
  Instant now() override { return now_; }
  WallTime wall() override { return start_ + (now_ - Instant{}); }
  void move_to(Instant at) { now_ = std::max(now_, at); }
  void start_at(WallTime wall) { start_ = wall; }

 private:
  Instant now_{};
  WallTime start_{};
};

class SimFiles : public core::Files {
 public:
  Result<std::string> read(const std::string& path, std::size_t limit) override;
  Status replace(const std::string& path, std::string_view content) override;
  Status append(const std::string& path, std::string_view content) override;
  Result<bool> create_once(const std::string& path, std::string_view content) override;
  Result<bool> exists(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove_folder(const std::string& base, const std::string& folder,
                       const std::vector<std::string>& files) override;
  Status make_directories(const std::string& path, unsigned mode) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<std::string> tree(const std::string& path) override;

  // Writes to paths that contain this text fail, with ESTALE reads too; "" = all work.
  void refuse(std::string part, int error = ENOSPC) {
    refused_ = std::move(part);
    error_ = error;
  }
  // The paths that start so, without that start.
  [[nodiscard]] std::vector<std::string> below(const std::string& prefix) const;
  std::map<std::string, std::string> content;

 private:
  [[nodiscard]] bool refuses(const std::string& path) const;
  Status writable(const std::string& path) const;
  std::string refused_;
  int error_ = ENOSPC;
};

class SimAlerts : public core::Alerts {
 public:
  Status accept(const EffectKey& key, const core::SendAlert& alert,
                const core::AlertPolicy& policy) override;
  std::map<EffectKey, core::SendAlert> accepted;
};

// A controller that accepts what the script says. Jobs start and end only by script.
class SimScheduler : public core::Scheduler {
 public:
  enum class NextSubmit { Works, Refused, Starved, LostAnswer, LostRequest };

  core::PortResult<JobId> submit(const core::SubmitRequest& request) override;
  core::PortResult<std::monostate> cancel(const core::Cancel& cancel) override;
  core::PortResult<std::monostate> set_exclusions(const core::SetExclusions& change) override;
  core::PortResult<std::string> drain(const core::DrainNode& drain) override;
  core::PortResult<std::monostate> signal(const core::SignalJob& signal) override;
  // Its step runs and each node has a process, but where `probed` says otherwise.
  core::JobProbed probe(const core::ProbeRequest& request) override;
  core::PortResult<std::optional<JobId>> look_up(const Token& token) override;
  Result<core::SchedulerView> observe(const std::vector<RunName>& runs) override;

  enum class Probed { Runs, Empty, BatchLeft, Mute, Unknown };
  void set_probed(Probed how) { probed_ = how; }
  void refuse_drains(bool refuse) { refuses_drains_ = refuse; }
  void refuse_cancels(bool refuse) { refuses_cancels_ = refuse; }
  void next_submit(NextSubmit how) { next_ = how; }
  void set_blind(bool blind) { blind_ = blind; }
  // Token of an array; empty for a job that was never submitted here.
  [[nodiscard]] Token token_of(std::uint64_t job) const;
  [[nodiscard]] const std::map<std::uint64_t, core::Submit>& jobs() const { return jobs_; }

 private:
  std::uint64_t last_ = 0;
  NextSubmit next_ = NextSubmit::Works;
  bool blind_ = false, refuses_drains_ = false, refuses_cancels_ = false;
  Probed probed_ = Probed::Runs;
  std::map<std::uint64_t, core::Submit> jobs_;
  std::set<std::uint64_t> cancelled_;
};

}  // namespace stoker::sim
