// Command: one word of `stoker`. Each file in cli/commands/ makes one; commands.cpp lists them. A
// command declares its options on its CLI11 app and returns what to do once they are parsed. To add
// one: its file, a line in commands/all.hpp, a line in commands.cpp; then ./dev docs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/show/console.hpp"

namespace stoker::cli {

// Exit codes, cli.md: 0 done, 1 failed, 2 usage or configuration error; of pulse: an ***ALERT.
inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kAlert = 2;

// What every command is given. `state` is filled in before the command runs.
struct Context {
  Console& console;
  std::string state;                               // state directory, absolute
  std::map<std::string, std::string> environment;  // of this process
};

using Action = std::function<int()>;

struct Command {
  std::string name;
  std::string summary;                // one line
  std::vector<std::string> examples;  // shown by --help
  std::function<Action(CLI::App&, Context&)> declare;
  bool hidden = false;
};

// In the order of the reference.
const std::vector<Command>& commands();

}  // namespace stoker::cli
