// The parts of a run's state are one flat object in the journal.
#include "core/run_state.hpp"

#include <doctest/doctest.h>
#include <set>
#include <string>

using namespace stoker;
using namespace stoker::core;

TEST_CASE("run state: members of two parts -> never one name, or one would overwrite the other") {
  std::set<std::string> names{"policy", "training", "since",  "since_wall",
                              "why",    "live",     "newest", "followers"};
  const RunState run;
  RunState::each_part(run, [&](const auto& part) {
    const Json json = part;
    for (const auto& item : json.items())
      CHECK_MESSAGE(names.insert(item.key()).second, item.key());
  });
  CHECK(Json(run).size() == names.size());
}
