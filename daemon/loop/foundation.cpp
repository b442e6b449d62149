// Foundation: possession first, then the journal; damage is named, restored and announced.
#include "daemon/loop/foundation.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <thread>

#include "common/os/files.hpp"
#include "daemon/journal/recovery.hpp"
#include "daemon/loop/log.hpp"
#include "daemon/loop/sd_notify.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kBackupsKept = 7;
constexpr Duration kLeaseTimeout = 30s;

bool is_damage(const Error& error) {
  return error.what.starts_with("damaged: ");
}

Status with_hint(Status made) {
  if (made) return made;
  Error error = made.error();
  error.hint = "make the state directory writable, or name another with --state";
  return fail(error);
}

Status open_journal(Foundation& foundation) {
  JournalOptions options{foundation.possession->journal_path(), foundation.possession->network(),
                         [owner = foundation.possession.get()] { return owner->still_ours(); }};
  auto journal = SqliteJournal::open(options);
  if (!journal && is_damage(journal.error())) {
    foundation.announcements.push_back(journal.error().message());
    STOKER_TRY(report, recover_journal(options.path, list_backups(foundation.backups), wall_now()));
    foundation.announcements.push_back("the journal is restored: " + report.message());
    journal = SqliteJournal::open(options);
  }
  if (!journal) return fail(journal.error());
  foundation.journal = std::move(*journal);
  return ok();
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
  for (const std::string& folder : {foundation.backups, state + "/published"})
    STOKER_TRY_STATUS(with_hint(os::make_directories(folder, 0755)));
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

Status back_up(Foundation& foundation, WallTime now) {
  if (!backup_is_due(foundation.backups, now)) return ok();
  STOKER_TRY_STATUS(foundation.journal->copy_to(backup_path(foundation.backups, now)));
  prune_backups(foundation.backups, kBackupsKept);
  return ok();
}

}  // namespace stoker::daemon
