// Foundation: possession first, then the journal; damage is named, restored and announced.
#include "daemon/loop/foundation.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/fuse_mount.hpp"
#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"
#include "common/os/way.hpp"
#include "common/os/writers.hpp"
#include "daemon/journal/recovery.hpp"
#include "daemon/journal/restore.hpp"
#include "daemon/loop/log.hpp"
#include "daemon/loop/sd_notify.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kBackupsKept = 7;
constexpr Duration kLeaseTimeout = 30s;

Status with_hint(Status made) {
  if (made) return made;
  Error error = made.error();
  error.hint = "make the state directory writable, or name another with --state";
  return fail(error);
}

Status open_journal(Foundation& foundation) {
  JournalOptions options{foundation.possession->journal_path(), foundation.possession->network(),
                         [owner = foundation.possession.get()] { return owner->still_ours(); }};
  STOKER_TRY(opened, open_or_restore(options, list_backups(foundation.backups), wall_now()));
  for (std::string& text : opened.announcements)
    foundation.announcements.push_back(std::move(text));
  STOKER_TRY_STATUS(
      check_not_forgotten(*opened.journal, foundation.state_directory + "/published"));
  foundation.journal = std::move(opened.journal);
  return ok();
}

bool is_private(const std::string& name) {
  constexpr std::array<std::string_view, 11> kOurs{
      "journal",      "backups",  "lease.", "epoch",    "identity",     "stokerd.lock",
      "stokerd.turn", "stepping", "pulse",  "patterns", "slurm-cluster"};
  return std::any_of(kOurs.begin(), kOurs.end(),
                     [&name](std::string_view ours) { return name.starts_with(ours); });
}

// An empty directory is replaced, in one step: who opened the old one holds nothing of the new one.
bool made_anew(const std::string& state) {
  std::string aside = state + ".new-XXXXXX";
  if (::mkdtemp(aside.data()) == nullptr) return false;
  const bool replaced = ::rename(aside.c_str(), state.c_str()) == 0;
  if (!replaced) ::rmdir(aside.c_str());
  return replaced;
}

// Older versions made state readable for everybody. The folder is closed to them from the first
// moment on; its files too, for a group that may pass through it.
// A sentence for the log; "" = it was closed before.
Result<std::string> close_state(const std::string& state) {
  struct stat info {};
  if (::stat(state.c_str(), &info) != 0) return fail(errno_error(errno, "cannot stat", state));
  if (info.st_uid != ::geteuid())
    return fail(fmt::format("the state directory belongs to {}", os::user_name_of(info.st_uid)),
                state, "name one of your own with --state");
  const os::Fd opened(::open(state.c_str(), O_PATH | O_CLOEXEC));
  STOKER_TRY_STATUS(os::check_mount(opened.get(), state));
  std::string news;
  if ((info.st_mode & 0066) != 0 && !made_anew(state))
    news = fmt::format(
        "{} was open to other users until now (mode {:04o}): who opened it then can still hold it. "
        "It is closed; after the next stop, move its content into a directory that `mkdir -m 0700` "
        "made",
        state, info.st_mode & 07777);
  STOKER_TRY_STATUS(os::set_folder_mode(state, info.st_mode & 0710, "cannot close it to others"));
  STOKER_TRY_STATUS(os::check_entries(state));  // who could write there may have put links there
  const auto names = os::list_directory(state);
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    const std::string path = state + "/" + name;
    if (!is_private(name) || ::lstat(path.c_str(), &info) != 0) continue;
    const bool plain = S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
    if (plain && (info.st_mode & 0077) != 0)
      (void)os::set_mode(path, info.st_mode & 0700, "cannot close it to others");
  }
  for (const char* folder : {"", "/backups"}) os::sweep_aside_files(state + folder);
  return news;
}

// Ready for systemd while another host's daemon does the work: it must not be ended for waiting.
void wait_in_peace(PossessionOptions& options) {
  options.waits = [](const std::string& owner) {
    log(LogLevel::Notice, owner + "; this one waits for its lease to stand still");
    SystemdNotifier().ready("waits: " + owner);
  };
  options.wait = [](Duration pause) {
    std::this_thread::sleep_for(pause);
    SystemdNotifier().watchdog();
    return true;
  };
}

}  // namespace

Result<Foundation> lay_foundation(const std::string& state_directory, bool patient) {
  Foundation foundation;
  STOKER_TRY(state, os::absolute_path(state_directory));
  foundation.state_directory = state;
  foundation.backups = state + "/backups";
  STOKER_TRY_STATUS(with_hint(os::make_directories(state, 0700)));
  STOKER_TRY_STATUS(with_hint(os::check_way(state)));
  STOKER_TRY(open_before, close_state(state));
  if (!open_before.empty()) foundation.announcements.push_back(open_before);
  for (const std::string& folder : {foundation.backups, state + "/published"})
    STOKER_TRY_STATUS(with_hint(os::make_directories(folder, 0700)));
  std::string file_system;
  STOKER_TRY(network, state_is_on_network(state, file_system));
  PossessionOptions options{state, network, kLeaseTimeout, {}};
  if (const char* text = std::getenv("STOKER_LEASE_TIMEOUT")) {
    STOKER_TRY(timeout, parse_duration(text));
    options.lease_timeout = timeout;
  }
  if (patient) wait_in_peace(options);
  STOKER_TRY(possession, Possession::take(options));
  foundation.possession = std::move(possession);
  if (const auto& dead = foundation.possession->left_behind())
    foundation.announcements.push_back(fmt::format(
        "stokerd with pid {} was killed and has not ended: a thread of it waits for a file system "
        "that does not answer. Its lock and its journal were replaced by copies",
        dead->pid));
  STOKER_TRY_STATUS(share_state(state, std::nullopt));
  if (network)
    foundation.announcements.push_back(fmt::format(
        "{} is on a network file system ({}): epoch {} works on its own {}, readers use what is "
        "published",
        state, file_system, foundation.possession->epoch().value,
        foundation.possession->journal_path()));
  STOKER_TRY_STATUS(open_journal(foundation));
  STOKER_TRY(poison, PoisonGuard::open(state + "/stepping.json"));
  foundation.poison = std::make_unique<PoisonGuard>(std::move(poison));
  STOKER_TRY(times, foundation.journal->last_times());
  foundation.clock = std::make_unique<EngineClock>(times);
  STOKER_TRY(kind, foundation.journal->last_kind());
  foundation.clean = kind == core::DaemonStopping::kKind;
  return foundation;
}

Status share_state(const std::string& state, std::optional<gid_t> group) {
  // Entered, not listed: who can list a folder can keep others from writing in it (watch/part.hpp).
  auto set =
      os::share_folder(state + "/.", group, group ? 0710 : 0700, "cannot set who may read it");
  if (set) return ok();
  Error error = set.error();
  error.hint = "stokerd must run as the owner of its state directory";
  return fail(error);
}

Status share_published(const std::string& published, bool shared) {
  struct stat info {};
  if (::lstat(published.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) return ok();  // its owner's
  return os::set_folder_mode(published, shared ? 0711 : 0700, "cannot set who may read it");
}

Status back_up(Foundation& foundation, WallTime now) {
  if (!backup_is_due(foundation.backups, now)) return ok();
  STOKER_TRY_STATUS(foundation.journal->copy_to(backup_path(foundation.backups, now)));
  prune_backups(foundation.backups, kBackupsKept);
  return ok();
}

}  // namespace stoker::daemon
