// `stoker-agent follow`: a follower's job (wire/follow_files.hpp). Its order is checked, the try is
// claimed, the command runs with the checkpoint in its environment and in {checkpoint}, {iteration}
// and {run} of its arguments; how it ended is made durable before the job ends. On the first node
// of the allocation only.
#pragma once

#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "wire/follow_files.hpp"

namespace stoker::agent {

struct FollowOptions {
  std::string folder, token;
  Duration patience = 40s;  // a network file system may show a new order that much later
};

// The exit code: that of the command.
int follow_checkpoint(const FollowOptions& options);

// Arguments with their placeholders replaced; others stay as they are.
std::vector<std::string> filled_command(const wire::FollowOrder& order,
                                        const std::string& checkpoint);
// The last line of what a command printed that says something, without values of its environment,
// printable and cut to kLongestWords.
std::string last_words(const std::string& output_path,
                       const std::map<std::string, std::string>& environment);

}  // namespace stoker::agent
