// Foundation: what a daemon stands on before its loop turns: the state directory in its possession,
// a sound journal (restored when it was damaged), the clock that goes on, the poison guard.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "daemon/journal/sqlite_journal.hpp"
#include "daemon/loop/poison.hpp"
#include "daemon/ports/os_ports.hpp"
#include "daemon/state/possession.hpp"

namespace stoker::daemon {

struct Foundation {
  std::string state_directory, backups;
  std::unique_ptr<Possession> possession;
  std::unique_ptr<SqliteJournal> journal;
  std::unique_ptr<PoisonGuard> poison;
  std::unique_ptr<EngineClock> clock;
  bool clean = false;                      // the daemon before had said goodbye
  std::vector<std::string> announcements;  // sentences for the log
};

// Error: another daemon has the directory, it cannot be written, the journal is of a newer version.
// `patient`: on a shared disk a living owner is waited for, for as long as it lives.
Result<Foundation> lay_foundation(const std::string& state_directory, bool patient);

// The state directory is its owner's alone (0700). With a group its members may pass through to the
// control socket and <state>/published (0710).
Status share_state(const std::string& state, std::optional<gid_t> group);
// Who may pass through the state directory may pass through this one too, to files whose names are
// known: chosen content, without secrets. Who reads one of them can hold the folder: not on the
// loop's thread, and not before the daemon works.
Status share_published(const std::string& published, bool shared);

// The journal with its backup, daily and at a clean end. Blocks.
Status back_up(Foundation& foundation, WallTime now);

}  // namespace stoker::daemon
