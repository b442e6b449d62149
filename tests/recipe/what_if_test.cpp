// Closed forms against numbers worked out by hand, and against each other.
#include "recipe/what_if.hpp"

#include <doctest/doctest.h>

#include "recipe/save_rounds.hpp"

using namespace stoker;
using namespace stoker::recipe;

TEST_CASE(
    "what if: 30 min between saves of 30 s, a restart of 5 min, a failure every 10 h -> ETTR") {
  // (1 - 20 min / 600 min) / (1 + 30 / 1800)
  CHECK(expected_ettr(30min, 30s, 5min, 10h) == doctest::Approx(0.96667 / 1.016667).epsilon(1e-4));
  CHECK(expected_ettr(30min, 30s, 5min, 1min) == 0);
}

TEST_CASE("what if: Daly's interval -> no worse than its neighbours") {
  const Duration save = 60s, mtbf = 6h, best = daly_interval(save, mtbf);
  const double at = expected_ettr(best, save, 5min, mtbf);
  CHECK(at > expected_ettr(best / 2, save, 5min, mtbf));
  CHECK(at > expected_ettr(best * 2, save, 5min, mtbf));
}

TEST_CASE("what if: half a node out on average -> the chance of being short, by spares") {
  CHECK(short_of_nodes(0.5, 0) == doctest::Approx(0.393469).epsilon(1e-4));
  CHECK(short_of_nodes(0.5, 1) == doctest::Approx(0.090204).epsilon(1e-4));
  CHECK(short_of_nodes(0, 0) == 0);
}

TEST_CASE("what if: going back costs an hour, waiting half of one -> pays above one in three") {
  CHECK(even_chance(1h, 30min) == doctest::Approx(1.0 / 3));
}
