// Possession of a state directory: one daemon may act on it, and it knows when it may not any more.
// On a local file system an flock decides. On a network file system locks cannot be trusted: there
// `lease.<epoch>` files, made exactly once, hold a counter that the owner renews; a successor makes
// lease.<epoch+1> once the counter stood still for the time-out by its own clock, and works on its
// own copy `journal.<epoch+1>.db`. Every start has a higher epoch, in both modes; agents refuse
// older ones.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/os/fd.hpp"
#include "common/time.hpp"
#include "daemon/state/lease.hpp"

namespace stoker::daemon {

struct PossessionOptions {
  std::string state_directory;
  bool network = false;
  Duration lease_timeout = 30s;  // the counter of a living owner never stands still this long
  // Called while waiting for another owner's lease to run out; false gives up. Empty: sleep.
  std::function<bool(Duration)> wait;
  // Reported once that a living owner is waited for. Empty: its directory is refused instead.
  std::function<void(const std::string& owner)> waits{};
};

class Possession {
 public:
  // Error: another daemon owns the directory (named: host and pid) and is not waited for.
  static Result<std::unique_ptr<Possession>> take(const PossessionOptions& options);
  ~Possession();
  Possession(const Possession&) = delete;
  Possession& operator=(const Possession&) = delete;

  [[nodiscard]] Epoch epoch() const { return epoch_; }
  [[nodiscard]] bool network() const { return options_.network; }
  // The dead owner that the kernel still keeps files open for, where there is one.
  [[nodiscard]] const std::optional<Lease>& left_behind() const { return left_behind_; }
  // The file of this epoch; for network state taken over by a copy of the one before.
  [[nodiscard]] std::string journal_path() const;
  // Error once a successor has come (then lost()), and where that cannot be looked up; any thread.
  // Cheap on a local file system.
  Status still_ours();
  [[nodiscard]] bool lost() const { return lost_; }
  // Renews the counter of a network lease; call at least every lease_timeout / 5.
  Status renew();
  void release();

 private:
  explicit Possession(PossessionOptions options) : options_(std::move(options)) {}
  Status take_local();
  Status take_network();
  Result<bool> owner_is_gone(Epoch epoch);
  Status copy_journal(Epoch from);
  Status write_epoch() const;
  [[nodiscard]] std::string lease_path(Epoch epoch) const;

  PossessionOptions options_;
  Epoch epoch_;
  os::Fd lock_;
  Lease lease_;
  std::optional<Lease> left_behind_;
  bool waited_ = false;
  std::atomic<bool> lost_{false};
};

// Is `directory` on a network file system? STOKER_STATE_FS=network|local overrides what statfs
// says.
Result<bool> state_is_on_network(const std::string& directory, std::string& file_system_name);

}  // namespace stoker::daemon
