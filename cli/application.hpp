// The program `stoker` as a function: options, the chosen command, its exit code. Nothing below it
// calls exit().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace stoker::cli {

// The whole command tree on one CLI11 app; `actions` has what each command does, by name. With
// `only` not empty, only that command is declared (a start needs no more).
struct Application {
  std::unique_ptr<CLI::App> app;
  std::map<std::string, Action> actions;
  std::string state, color = "auto";
};
std::unique_ptr<Application> make_application(Context& context, const std::string& only = {});

// Runs `stoker` with these arguments (without argv[0]).
int run(const std::vector<std::string>& arguments, Context& context);

}  // namespace stoker::cli
