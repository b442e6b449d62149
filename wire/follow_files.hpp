// What a follower's job and the daemon exchange: a command that is run on one checkpoint (`after:`
// of RUN.yaml), in a folder of its own below the run directory:
//   after/evaluate-001000.g000001/order.json        what to run; the daemon replaces it a try
//                                 claim-<token>     made by the job's first act: a job that starts
//                                                   twice runs its command once
//                                 output-<token>.log
//                                 end-<token>.json  the command is over; written last, durable
// A job whose token is not the one of order.json leaves: a later try has taken its place.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace stoker::wire {

inline constexpr const char* kFollowFolder = "after";
inline constexpr const char* kFollowOrder = "order.json";
inline constexpr std::size_t kLongestWords = 200;  // bytes of FollowEnd::words

struct FollowOrder {
  int version = 1;
  RunName run;
  std::string follower;
  Iteration iteration;
  Generation generation;
  std::string checkpoint;            // absolute; "" = of a foreign format: found by its iteration
  std::string checkpoint_directory;  // absolute
  std::uint32_t number = 1;          // of the try
  Token token;
  std::vector<std::string> command;  // {checkpoint} {iteration} {run} stand for their values
  std::map<std::string, std::string> environment;  // added
  std::string directory;                           // where it runs: the run directory
  STOKER_FIELDS(FollowOrder, version, run, follower, iteration, generation, checkpoint,
                checkpoint_directory, number, token, command, environment, directory)
};

struct FollowEnd {
  int version = 1;
  Token token;
  int code = 0, signal = 0;
  std::string words;     // the command's last line, or why it did not run
  bool ordered = false;  // the job was ordered to end: cancelled, at its time limit
  double seconds = 0;
  WallTime at;
  STOKER_FIELDS(FollowEnd, version, token, code, signal, words, ordered, seconds, at)
};

// "evaluate-001000.g000001"
std::string follow_folder(const std::string& follower, Iteration iteration, Generation generation);
std::string follow_claim(const Token& token);   // "claim-<token>"
std::string follow_end(const Token& token);     // "end-<token>.json"
std::string follow_output(const Token& token);  // "output-<token>.log"
// Whether a file of such a folder is one of these, or what the scheduler wrote of the job.
bool is_follow_file(std::string_view name);
inline constexpr const char* kFollowJobOutput = "job";  // job-<id>.out

}  // namespace stoker::wire
