// Secrets of sinks: from files (common/os/secret.hpp), and never in a message.
#pragma once

#include <string>
#include <vector>

#include "common/os/secret.hpp"

namespace stoker::alerts {

using os::read_secret;

// Every occurrence of a secret becomes "***"; secrets shorter than four bytes are left alone.
std::string masked(std::string text, const std::vector<std::string>& secrets);

}  // namespace stoker::alerts
