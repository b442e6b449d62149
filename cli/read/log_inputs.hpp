// What a person names as logs, as a list of files: files, folders (all below, loops not followed),
// globs that the shell did not expand, "-" for standard input. In a folder, files that are no logs
// by name or content (checkpoints, binaries) are left out.
#pragma once

#include <string>
#include <vector>

#include "diagnose/input/log_reader.hpp"

namespace stoker::cli {

struct LogInput {
  std::string path;
  bool kernel_log = false;
  diagnose::Links links = diagnose::Links::All;
};

struct LogInputs {
  std::vector<LogInput> files;      // in the order named; within a folder by name
  std::vector<std::string> errors;  // one line each: what was named and is not there
  std::vector<std::string> notes;   // what was left out
};

// Adds what `named` stands for.
void add_log_inputs(const std::vector<std::string>& named, bool kernel_log, LogInputs& inputs);

}  // namespace stoker::cli
