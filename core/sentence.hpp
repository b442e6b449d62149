// Parts of sentences that several decisions share: evidence in numbers.
#pragma once

#include <string>
#include <vector>

#include "core/event.hpp"
#include "core/state.hpp"

namespace stoker::core {

// "signal 9 (Killed)", "exit code 22 (configuration)".
std::string exit_text(int code, int signal);
// "at iteration 1234, 87 iterations after the checkpoint of 1147".
std::string where_text(const RunState& run);
// "18 of 20 restarts left".
std::string budget_text(const RunState& run);
// "alice (by switch file): \"before lunch\""
std::string who_text(const OperatorAsked& asked);
// "n[01-03]", "no node".
std::string nodes_text(const std::vector<NodeName>& nodes);
// "job 1_2".
std::string job_text(const JobId& job);
// " by uid 1007"; "" when the scheduler does not tell (squeue never does, sacct does).
std::string by_whom(const JobSeen& end);
std::string count_text(std::uint64_t n, const char* noun);  // "1 iteration", "2 iterations"
// The command a person types: "stoker why tr11 --last 5".
std::string command_text(const RunName& run, const char* verb, const char* rest = "");

// Failures of a kind as people call them: "crashes of ranks" of rank_crash; an unknown kind by its
// own words, "other causes" without one.
std::string failures_text(const std::string& kind);

}  // namespace stoker::core
