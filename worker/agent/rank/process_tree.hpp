// Ends process trees for good: descendants by parent links, and strays by a mark in their
// environment (STOKER_AGENT_MARK, unique per agent), which finds what was reparented after its
// guardian died. Linux only; single-threaded callers.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "common/time.hpp"

namespace stoker::agent {

inline constexpr const char* kMarkVariable = "STOKER_AGENT_MARK";

// Processes of this host that carry the mark, without `self`.
std::vector<pid_t> marked_processes(const std::string& mark, pid_t self);

// Processes of this host whose environment holds this line, "NAME=value", and is readable; without
// those that have ended.
std::vector<pid_t> processes_with(const std::string& line);

// Processes of this host with that name (/proc/<pid>/comm).
std::vector<pid_t> processes_named(const std::string& name);

// Direct children, zombies included.
std::vector<pid_t> children_of(pid_t parent);

// Sends `signal` to all descendants of this process. Returns how many there were.
std::size_t signal_descendants(int signal);

// Kills and reaps all children, and as subreaper all descendants, until none is left or `limit`
// passed (a process in uninterruptible sleep cannot be killed). Empty: none left; else their pids.
std::vector<pid_t> kill_descendants(Duration limit);

// Kills what carries the mark, wherever it was reparented to, until none is left or `limit` passed.
// Never kills `except`. Returns what is left.
std::vector<pid_t> kill_marked(const std::string& mark, const std::vector<pid_t>& except,
                               Duration limit);

// "4711 python3 (D)" for each, for people.
std::string describe_processes(const std::vector<pid_t>& pids);

// The process has a handler for the signal (SigCgt of /proc/<pid>/status): an uncaught USR1 would
// end it.
bool catches_signal(pid_t pid, int signal);

}  // namespace stoker::agent
