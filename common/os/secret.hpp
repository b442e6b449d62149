// A secret in a file: only where no other user can read it, and never in a message.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::os {

// The only line of a file: owned by this user or root, no access for others, not writable by the
// group, readable by the group only when it is root's. "credential:NAME" is a credential of
// systemd (LoadCredential=NAME). Read at each use: a new secret needs no restart.
Result<std::string> read_secret(const std::string& path);

}  // namespace stoker::os
