// Completion scripts for bash, zsh and fish, made from the command tree itself, so that they never
// lag behind it. Names of runs are asked for with `stoker status --json`.
#pragma once

#include <string>

#include "cli/application.hpp"

namespace stoker::cli {

// `shell` is bash, zsh or fish.
std::string render_completion(const CLI::App& app, const std::string& shell);

}  // namespace stoker::cli
