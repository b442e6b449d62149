// Random lives: no seed makes the lead do what must never happen, and each rule that is taken out
// is noticed.
#include "tests/lead/life.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using lead_test::Guard;
using lead_test::Life;

TEST_CASE("lead: 500 random lives -> nothing that must never happen") {
  std::set<std::string> stages;
  std::uint64_t attempts = 0, from_memory = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Life life(seed, Guard::None);
    const std::string wrong = life.live();
    REQUIRE_MESSAGE(wrong.empty(), "seed " << seed << ": " << wrong);
    stages.insert(life.stages().begin(), life.stages().end());
    attempts += life.attempts();
    from_memory += life.from_memory();
  }
  CHECK(attempts > 1'000);  // it was a life
  CHECK(from_memory > 100);
  CHECK(stages.size() == std::variant_size_v<lead::Stage>);
}

TEST_CASE("lead: a rule taken out -> noticed") {
  for (const Guard guard :
       {Guard::StaleAttempt, Guard::AllClear, Guard::LostGrace, Guard::MarkFirst, Guard::OneAttempt,
        Guard::SnapshotLine, Guard::SnapshotWhole}) {
    std::uint64_t noticed = 0;
    for (std::uint64_t seed = 1; seed <= 3000 && noticed == 0; ++seed)
      if (!Life(seed, guard).live().empty()) noticed = seed;
    CHECK_MESSAGE(noticed != 0, "guard " << static_cast<int>(guard));
  }
}
