// How many orders of one user other than the daemon's own are taken in a day: each is a row of the
// journal and lines of files that stay, and the disk is the owner's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <sys/types.h>

#include "common/time.hpp"

namespace stoker::watch {

class DailyBudget {
 public:
  explicit DailyBudget(std::size_t most = 1000) : most_(most) {}

  // Takes one of this user's. Otherwise the beginning of the sentence that refuses it: "alice has
  // given 1000 orders since …, the most in 24 hours: the next one is taken from … on".
  std::optional<std::string> spend(uid_t user, const std::string& name, WallTime wall);

 private:
  struct Day {
    WallTime since{};
    std::size_t used = 0;
  };
  [[nodiscard]] static bool is_over(const Day& day, WallTime wall);

  std::size_t most_;
  std::map<uid_t, Day> days_;
};

}  // namespace stoker::watch
