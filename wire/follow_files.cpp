// Names of a follower's files.
#include "wire/follow_files.hpp"

#include <fmt/format.h>

namespace stoker::wire {

std::string follow_folder(const std::string& follower, Iteration iteration, Generation generation) {
  return fmt::format("{}-{:06}.g{:06}", follower, iteration.value, generation.value);
}
std::string follow_claim(const Token& token) {
  return "claim-" + token.text;
}
std::string follow_end(const Token& token) {
  return fmt::format("end-{}.json", token.text);
}
std::string follow_output(const Token& token) {
  return fmt::format("output-{}.log", token.text);
}
bool is_follow_file(std::string_view name) {
  if (name.starts_with(kFollowOrder)) return true;  // with what a writer has put aside
  for (const std::string_view prefix : {"claim-", "end-", "output-", "job-"})
    if (name.starts_with(prefix)) return true;
  return false;
}

}  // namespace stoker::wire
