// What a fuzz target is, and what all of them use. To add one: a function and a row in the table of
// its area's file, with the limits that production has; a few seeds in seeds.py.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace stoker::fuzz {

struct Target {
  std::string_view name;
  void (*run)(std::string_view bytes);
  void (*prepare)() = nullptr;  // what all inputs share; counts for none of them
};

std::span<const Target> log_targets();        // logs, dumps, journals of the kernel
std::span<const Target> run_targets();        // a run's files, its agents, its configuration
std::span<const Target> scheduler_targets();  // what SLURM prints, batch scripts, crontabs
std::span<const Target> data_targets();       // training data, the daemon's own journal

// Aborts: the property that `what` names does not hold.
void must(bool good, const char* what);

// Beside the program: what takes seconds to make is kept there from run to run.
const std::string& cache_folder();
// In memory, of this process alone; for parsers that take a path.
const std::string& scratch_folder();
// Replaces <scratch>/<name>; the path.
std::string scratch_file(const std::string& name, std::string_view bytes);

template <class Take>
void each_line(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    take(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
}

}  // namespace stoker::fuzz
