// Stacks of all threads of ranks, into one text file a rank. First what /proc shows (comm, state,
// wchan, syscall, kernel stack where readable): it works on every process, also in uninterruptible
// sleep. Then user frames with what the node has: py-spy for Python, gdb or eu-stack, each with a
// deadline; else faulthandler's signal where the rank says so (STOKER_FAULTHANDLER=USR1).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/time.hpp"
#include "wire/agent_event.hpp"

namespace stoker::agent {

struct StackTarget {
  std::string name;  // of the file, without .txt: "n01.3"
  std::vector<pid_t> pids;
  std::string log;  // where its output goes; faulthandler's frames are taken from there
};

// Returns how many files were written. What /proc shows is written of all targets first: the ranks,
// or this process, may be ended while a tool still reads symbols; then `first` is called with their
// number. Tools have `limit` together. Blocks; no lock is held.
std::uint32_t write_stacks(const std::vector<StackTarget>& targets, const std::string& directory,
                           const std::function<void(std::uint32_t)>& first = {},
                           Duration limit = 40s);

// The text of one process. `log`: the file its standard error goes to, "" = not known.
std::string stacks_of(pid_t pid, const std::string& log = {});

// The programs found for user frames, "gdb, py-spy"; "" = none.
std::string stack_tools();

// Groups what lies in `directory` (files <node>.<rank>.txt): equal stacks, and who is elsewhere
// than more than half of all. Reads files.
wire::StacksWritten group_written(const std::string& directory);

}  // namespace stoker::agent
