// Acting on a run: ask the daemon; when it cannot be reached, drop the switch file of the same verb
// into the run's directory and say so. What has no switch file says what to do instead.
#pragma once

#include <functional>
#include <string>

#include "cli/command.hpp"
#include "cli/read/daemon_client.hpp"

namespace stoker::cli {

struct Deed {
  wire::Request request;      // verb, run (as given on the command line), reason, arguments …
  std::string switch_file;    // "" = this cannot be asked for by a file
  bool wants_reason = false;  // destructive: without --reason "no reason given" is recorded
  bool json = false;          // prints {"ok", "message", "via", …}
  // What came of it after the daemon has agreed, where that takes a while; may be empty.
  std::function<wire::Response(wire::Response agreed)> follow;
};

// Returns the exit code.
int act(const Context& context, Deed deed);

// The same, for what only the daemon's owner may do to its list of runs: shows first what would be
// done and asks. `yes`: does not ask. Without a terminal to ask on, nothing is done.
int act_when_sure(const Context& context, Deed deed, bool yes);

// The options that every acting command of a run has: RUN, --reason, --dry-run, --json.
void add_acting_options(CLI::App& app, Deed& deed, bool destructive);

// Drops `verb` into `<run directory>/switch/` as a group member would: mode 0660, body {by,
// reason}, never seen half written.
Result<std::string> write_switch_file(const std::string& run_directory, const std::string& verb,
                                      const std::string& reason);

// The command that starts a daemon for this state directory.
std::string start_command(const Context& context);

std::string user_name();

// --at TIME as RFC 3339: given so, or as a duration from `now` on.
Result<std::string> parse_moment(const std::string& text, WallTime now);

}  // namespace stoker::cli
