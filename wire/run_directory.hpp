// Who may write where in a run directory: its owner everywhere, the run's group in switch/ alone.
// Jobs execute what orders/ says and obey control.json, so a user who can put files there has the
// owner's account. Daemon and agents call this before they use a run directory.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"

namespace stoker::wire {

// Takes write permission from group and others where they must not have it, as older versions gave
// it; `closed` names those folders. Error: a folder belongs to another user or is a symbolic
// link, or what has one of stoker's names there is another user's, who made it before.
Status close_run_directory(const std::string& directory, std::vector<std::string>& closed);

// For a process that is about to start a command there. A training executes what it loads again (a
// pickle, its cache): where others may enter, the umask that many sites give (0002) would let them
// write what is made.
void keep_writers_out(const std::string& directory);

}  // namespace stoker::wire
