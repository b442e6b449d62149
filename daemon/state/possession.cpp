// Possession: flock on a local disk, leases with counters on a shared one.
#include "daemon/state/possession.hpp"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "common/os/files.hpp"
#include "common/os/there.hpp"
#include "daemon/state/state_lock.hpp"

namespace stoker::daemon {
namespace {

constexpr Duration kLeasePoll = 200ms;
constexpr std::string_view kLeasePrefix = "lease.";

// Errors: a directory or a file that cannot be read may hold a higher epoch.
Result<Epoch> newest_lease(const std::string& directory) {
  Epoch newest;
  STOKER_TRY(names, os::list_directory(directory));
  for (const std::string& name : names) {
    if (!name.starts_with(kLeasePrefix)) continue;
    std::uint32_t number = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kLeasePrefix.size(), end, number);
    if (error == std::errc{} && stop == end) newest = std::max(newest, Epoch(number));
  }
  return newest;
}

Result<std::string> read_if_there(const std::string& path) {
  STOKER_TRY(there, os::is_there(path));
  if (!there) return std::string();
  return os::read_file(path, 4096);
}

// The highest epoch that any file here knows of.
Result<Epoch> known_epoch(const std::string& directory) {
  STOKER_TRY(newest, newest_lease(directory));
  STOKER_TRY(text, read_if_there(directory + "/epoch"));
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  STOKER_TRY(locked, read_if_there(directory + kStateLock));
  const auto lease = from_json_text<Lease>(locked, directory + kStateLock);
  return std::max({newest, Epoch(number), lease ? lease->epoch : Epoch()});
}

// A journal and what SQLite keeps beside it, the file itself last. Onto itself: the same bytes in
// new files, which no lock of another process holds.
Status copy_parts(const std::string& from, const std::string& to) {
  constexpr std::size_t kLargest = std::size_t{4} << 30;
  for (const char* part : {"-journal", "-wal", ""}) {
    STOKER_TRY(there, os::is_there(from + part));
    if (!there) continue;
    STOKER_TRY(bytes, os::read_file(from + part, kLargest));
    STOKER_TRY_STATUS(os::replace_file(to + part, bytes, os::Durability::Synced, 0600));
  }
  return ok();
}

}  // namespace

Result<bool> state_is_on_network(const std::string& directory, std::string& file_system_name) {
  STOKER_TRY(system, os::file_system_of(directory));
  file_system_name = system.name;
  const char* forced = std::getenv("STOKER_STATE_FS");
  if (forced != nullptr && std::string_view(forced) == "network") return true;
  if (forced != nullptr && std::string_view(forced) == "local") return false;
  return system.network;
}

Result<std::unique_ptr<Possession>> Possession::take(const PossessionOptions& options) {
  std::unique_ptr<Possession> possession(new Possession(options));
  STOKER_TRY_STATUS(options.network ? possession->take_network() : possession->take_local());
  return possession;
}

Possession::~Possession() {
  release();
}

std::string Possession::lease_path(Epoch epoch) const {
  return fmt::format("{}/lease.{}", options_.state_directory, epoch.value);
}

std::string Possession::journal_path() const {
  if (!options_.network) return options_.state_directory + "/journal.db";
  return fmt::format("{}/journal.{}.db", options_.state_directory, epoch_.value);
}

Status Possession::write_epoch() const {
  return os::replace_file(options_.state_directory + "/epoch", fmt::format("{}\n", epoch_.value),
                          os::Durability::Synced);
}

Status Possession::take_local() {
  const std::string path = options_.state_directory + kStateLock;
  const auto free_journal = [this] {
    Status copied = copy_parts(journal_path(), journal_path());
    // It has locks too; SQLite makes it again from the log.
    if (copied) ::unlink((journal_path() + "-shm").c_str());
    return copied;
  };
  STOKER_TRY(taken, take_state_lock(options_.state_directory, free_journal));
  lock_ = std::move(taken.lock);
  left_behind_ = std::move(taken.left_behind);
  STOKER_TRY(known, known_epoch(options_.state_directory));
  epoch_ = known.next();
  STOKER_TRY_STATUS(write_epoch());
  const std::string text = to_json_text(our_lease(epoch_)) + "\n";
  if (::ftruncate(lock_.get(), 0) != 0 ||
      ::pwrite(lock_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return fail(errno_error(errno, "cannot write the lock", path));
  return ok();
}

// True once the counter of lease `epoch` stood still for the time-out by our own clock, or its
// owner is proven gone.
Result<bool> Possession::owner_is_gone(Epoch epoch) {
  std::optional<std::uint64_t> counter;
  Instant since = monotonic_now();
  for (;;) {
    const auto text = os::read_file(lease_path(epoch), 65536);
    const auto lease = from_json_text<Lease>(text.value_or("{}"), lease_path(epoch));
    if (lease && text) {
      if (lease->released || is_owner_gone(*lease)) return true;
      if (!counter || *counter != lease->counter) {
        if (counter && !options_.waits)  // it moved: its owner lives
          return fail(owner_text(*lease), options_.state_directory,
                      "stop that one first, or name another --state");
        if (counter && !std::exchange(waited_, true)) options_.waits(owner_text(*lease));
        counter = lease->counter;
        since = monotonic_now();
      }
    }
    if (monotonic_now() - since >= options_.lease_timeout) return true;
    if (options_.wait) {
      if (!options_.wait(kLeasePoll)) return false;
    } else {
      std::this_thread::sleep_for(kLeasePoll);
    }
  }
}

Status Possession::take_network() {
  for (;;) {
    // Read before the wait: who took it over meanwhile has made the very lease that is tried below.
    STOKER_TRY(known, known_epoch(options_.state_directory));
    STOKER_TRY(before, newest_lease(options_.state_directory));
    if (before.value > 0) {
      STOKER_TRY(gone, owner_is_gone(before));
      if (!gone) return fail("gave up waiting for its lease", lease_path(before));
    }
    const Epoch next = std::max(known, before).next();
    lease_ = our_lease(next);
    STOKER_TRY(won, os::claim_file(lease_path(next), to_json_text(lease_)));
    if (won) {
      epoch_ = next;
      STOKER_TRY_STATUS(write_epoch());
      return copy_journal(before);
    }
    if (!options_.waits)
      return fail("another stokerd took it over at the same moment", options_.state_directory);
  }
}

// The old file may still be written by a late owner: it is copied, with its rollback journal, and
// never opened. A copy torn by such a writer shows in its check and is made again. The main file is
// put in place last: an owner without one ended before it had copied, and its predecessor's counts.
Status Possession::copy_journal(Epoch from) {
  std::string old = options_.state_directory + "/journal.db";
  for (std::uint32_t epoch = from.value; epoch > 0; --epoch) {
    const auto path = fmt::format("{}/journal.{}.db", options_.state_directory, epoch);
    STOKER_TRY(there, os::is_there(path));
    if (!there) continue;
    old = path;
    break;
  }
  return copy_parts(old, journal_path());
}

Status Possession::still_ours() {
  if (!lost_ && options_.network) {
    STOKER_TRY(successor, os::is_there(lease_path(epoch_.next())));
    if (successor) lost_ = true;
  }
  return lost_ ? fail("another stokerd has taken over", options_.state_directory) : ok();
}

Status Possession::renew() {
  STOKER_TRY_STATUS(still_ours());
  if (!options_.network) return ok();
  ++lease_.counter;
  return os::replace_file(lease_path(epoch_), to_json_text(lease_), os::Durability::Cached);
}

void Possession::release() {
  if (!options_.network || epoch_.value == 0 || lease_.released || !still_ours()) return;
  lease_.released = true;
  if (!os::replace_file(lease_path(epoch_), to_json_text(lease_), os::Durability::Synced))
    lost_ = true;
}

}  // namespace stoker::daemon
