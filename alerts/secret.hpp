// Secrets of sinks: only from files that no other user can read, and never in a message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace stoker::alerts {

// The only line of a file: owned by this user or root, no access for others, not writable by the
// group, readable by the group only when it is root's. "credential:NAME" is a credential of
// systemd (LoadCredential=NAME). Read at each delivery: a new secret needs no restart.
Result<std::string> read_secret(const std::string& path);

// Every occurrence of a secret becomes "***"; secrets shorter than four bytes are left alone.
std::string masked(std::string text, const std::vector<std::string>& secrets);

}  // namespace stoker::alerts
