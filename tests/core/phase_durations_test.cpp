// Histogram: quantiles of durations with integer buckets.
#include "core/signals/phase_durations.hpp"

#include <doctest/doctest.h>
#include <limits>

using namespace stoker;
using core::Histogram;

TEST_CASE("histogram: nothing seen -> no quantile") {
  CHECK_FALSE(Histogram{}.quantile(500).has_value());
}

TEST_CASE("histogram: any duration -> answered from above, by at most 12.5 percent") {
  for (const std::int64_t us : {1L, 7L, 8L, 9L, 100L, 999L, 12345L, 1'000'000L, 123'456'789L}) {
    Histogram h;
    h.add(std::chrono::microseconds(us));
    const auto q = *h.quantile(990) / std::chrono::microseconds(1);
    CHECK(q >= us);
    CHECK(static_cast<double>(q) <= static_cast<double>(us) * 1.125 + 1);
  }
}

TEST_CASE("histogram: 99 short and one long -> median short, p99 short, p100 long") {
  Histogram h;
  h.add(1s, 99);
  h.add(60s);
  CHECK(*h.quantile(500) < 1200ms);
  CHECK(*h.quantile(990) < 1200ms);
  CHECK(*h.quantile(1000) >= 60s);
}

TEST_CASE("histogram: the run became slower -> the old norm fades") {
  Histogram h;
  h.add(1s, 4000);
  for (int i = 0; i < 40; ++i) h.add(10s, 1000);
  CHECK(*h.quantile(500) >= 10s);
  CHECK(h.count() < 5096);
}

TEST_CASE("histogram: a summary that is not finite -> left out") {
  Histogram h;
  h.add(wire::Quantiles{5, std::numeric_limits<double>::quiet_NaN(), 1, 1});
  h.add(wire::Quantiles{5, -1, 1, 1});
  CHECK(h.count() == 0);
  h.add(wire::Quantiles{5, 100, 200, 300});
  CHECK(h.count() == 5);
  CHECK(*h.quantile(1000) >= 300ms);
}

TEST_CASE("histogram: written and read -> equal") {
  Histogram h;
  h.add(1s, 3);
  h.add(5ms);
  CHECK(*from_json_text<Histogram>(to_json_text(h), "test") == h);
}
