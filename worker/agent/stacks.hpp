// Stacks of all threads of ranks, into one text file a rank. First what /proc tells (comm, state,
// wchan, syscall, kernel stack where readable): it works on every process, also in uninterruptible
// sleep. Then user frames with what the node has: py-spy for Python, gdb or eu-stack, each with a
// deadline; else faulthandler's signal where the rank says so (STOKER_FAULTHANDLER=USR1).
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace stoker::agent {

struct StackTarget {
  std::string name;  // of the file, without .txt: "n01.3"
  std::vector<pid_t> pids;
};

// Returns how many files were written. Blocks, at most about a minute; no lock is held.
std::uint32_t write_stacks(const std::vector<StackTarget>& targets, const std::string& directory);

// The text of one process. `tools` false: /proc only.
std::string stacks_of(pid_t pid, bool tools);

}  // namespace stoker::agent
