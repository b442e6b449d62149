// What is made from the command tree: docs/cli.md and the manual pages.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stoker::cli {

std::string render_cli_reference();

// (file name, text) in man(7): stoker.1 with the list of the commands, stoker-COMMAND.1 for each,
// stoker-run.5 and stoker-train.5 with every key of RUN.yaml and TRAIN.yaml.
std::vector<std::pair<std::string, std::string>> render_man_pages();

}  // namespace stoker::cli
