// Where stokerd keeps its state when no option names a folder: for the daemon and for the programs
// that ask it.
#pragma once

#include <map>
#include <string>

namespace stoker::os {

// `$STOKER_STATE`, else `$XDG_STATE_HOME/stoker`, else `~/.local/state/stoker`. A variable that is
// empty counts as not set; without HOME the user database names the home.
std::string default_state(const std::map<std::string, std::string>& environment);
// The same for the environment of this process.
std::string default_state();

}  // namespace stoker::os
