// docs/cli.md: the reference of `stoker`, made from the command tree.
#pragma once

#include <string>

namespace stoker::cli {

std::string render_cli_reference();

}  // namespace stoker::cli
