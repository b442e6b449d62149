// What a program prints last is published, while train.environment is for the owner alone: its
// values are hidden there, as core/secrets.hpp hides them in documents.
#pragma once

#include <map>
#include <string>

namespace stoker::agent {

// The text with "(hidden)" for each value of the environment. Shorter ones than 6 bytes are words
// (`stoker support` keeps them too).
std::string without_values(std::string text, const std::map<std::string, std::string>& environment);

}  // namespace stoker::agent
