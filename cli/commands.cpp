// The table of commands: one line each, in the order of the reference.
#include "cli/commands/all.hpp"

namespace stoker::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      cmd_check(),
      cmd_status(),
      cmd_events(),
      cmd_why(),
  };
  return table;
}

}  // namespace stoker::cli
