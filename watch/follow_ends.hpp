// The ends of followers' jobs (wire/follow_files.hpp), as FollowerEnded: looked for by name, as the
// decider knows which jobs it waits for. A file is reported once as long as it is waited for; the
// decider takes a repeated report for what it is. That it is missing is reported only of a job that
// is over, and only when its folder can be read: its order is there, and no end.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"

namespace stoker::watch {

struct Follow {
  Token token;
  std::string folder;  // below <run directory>/after
  bool over = false;   // the job has ended long ago
  bool operator==(const Follow&) const = default;
};

class FollowEnds {
 public:
  FollowEnds(RunName run, std::string directory);

  void wait_for(std::vector<Follow> follows);
  void poll(std::vector<core::Input>& out);
  [[nodiscard]] bool waits() const { return !follows_.empty(); }

 private:
  [[nodiscard]] bool is_missing(const Follow& follow) const;

  RunName run_;
  std::string directory_;
  std::vector<Follow> follows_;
  std::set<Token> reported_, missed_;  // ends, and missing ones
};

}  // namespace stoker::watch
