// The step change detector: found within minutes, and never in months of what only looks like one.
#include "core/signals/throughput.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::core::signals;

namespace {

class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 11;
  }
  double even() { return static_cast<double>(next()) / 9007199254740992.0; }
  double operator()() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += even();
    return sum;
  }

 private:
  std::uint64_t state_;
};

struct Run {
  SpeedWatch watch;
  SpeedPoint p;
  std::uint64_t batch = 2048, sequence = 2048;
  std::vector<SpeedVerdict> told;
  Instant told_at{};

  Run() {
    p.ranks = 384;
    p.samples = 1'000'000;
    p.tokens = p.samples * 2048;
  }
  std::optional<bool> step(double ms, std::uint64_t iterations = 1) {
    p.iteration = Iteration(p.iteration.value + iterations);
    p.at += from_seconds(ms / 1000 * static_cast<double>(iterations));
    p.samples += batch * iterations;
    p.tokens += batch * sequence * iterations;
    p.step_ms = ms;
    p.tflops = 149.0 * 105'200 / ms;
    SpeedVerdict v = watch_speed(watch, p);
    const auto slow = v.attempt_slow;
    if (v.news != SpeedNews::Nothing) {
      told.push_back(std::move(v));
      told_at = p.at;
    }
    return slow;
  }
};

}  // namespace

TEST_CASE(
    "speed: 149 -> 140 TFLOPs, 105 s an iteration -> found within ten minutes, 50 of 50 times") {
  Duration longest{};
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Noise noise(seed);
    Run run;
    for (int i = 0; i < 300; ++i) run.step(105'200 * (1 + 0.004 * noise()));
    REQUIRE(run.told.empty());
    const Instant change = run.p.at;
    for (int i = 0; i < 12 && run.told.empty(); ++i)
      run.step(105'200 * 149 / 140.0 * (1 + 0.004 * noise()));
    REQUIRE(run.told.size() == 1);
    CHECK(run.told[0].news == SpeedNews::Slower);
    CHECK(run.told[0].evidence.find(" -> ") != std::string::npos);
    CHECK(run.watch.slow->share() > 0.055);
    longest = std::max(longest, run.told_at - change);
    for (int i = 0; i < 12; ++i) run.step(105'200 * (1 + 0.004 * noise()));
    REQUIRE(run.told.size() == 2);
    CHECK(run.told[1].news == SpeedNews::AsUsual);
  }
  MESSAGE("found after at most " << format_duration(longest));
  CHECK(longest <= 10min);
}

TEST_CASE("speed: 9,000 hours of noise, heat of the day, evaluations and stalls -> no alarm") {
  std::size_t alarms = 0;
  Duration hours{};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Noise noise(seed + 100);
    Run run;
    const double spread = 0.002 + 0.012 * noise.even();
    for (int i = 0; i < 60'000;
         ++i) {  // about 1,770 hours each; 20 seeds of 180,000 found none either
      const double day = static_cast<double>((run.p.at - Instant{}) % 24h / 1s) / 86'400;
      const double heat = 0.01 * (day < 0.5 ? 4 * day - 1 : 3 - 4 * day);  // -1 % to +1 %
      double ms = 105'200 * (1 + heat + spread * noise());
      if (i % 100 == 99) ms *= 1.4;       // a save within
      if (noise.even() < 0.002) ms *= 3;  // a stall of the file system
      run.step(ms);
    }
    alarms += run.told.size();
    hours += run.p.at - Instant{};
  }
  const std::int64_t whole = hours / 1h;
  MESSAGE(whole << " hours, " << alarms << " alarms");
  CHECK(hours >= 8'500h);
  CHECK(alarms == 0);
}

TEST_CASE(
    "speed: ramp-up of the batch and a curriculum -> never held against another shape of work") {
  Noise noise(9);
  Run run;
  for (std::uint64_t batch = 192; batch <= 2048; batch += 16) {
    run.batch = batch;
    for (int i = 0; i < 40; ++i)
      run.step(105'200.0 * static_cast<double>(batch) / 2048 * (1 + 0.004 * noise()));
  }
  for (std::uint64_t sequence = 64; sequence <= 2048; sequence += 8) {
    run.sequence = sequence;
    for (int i = 0; i < 20; ++i)
      run.step(20'000 + 41.6 * static_cast<double>(sequence) * (1 + 0.004 * noise()));
  }
  CHECK(run.told.empty());
}

TEST_CASE("speed: points that noise or evaluations lift now and then -> no change is found") {
  Noise noise(13);
  Run run;
  for (int i = 0; i < 20'000; ++i)
    run.step(10'000 * (1 + 0.004 * noise()) * (i % 3 == 0 ? 1.3 : 1));
  CHECK(run.told.empty());
}

TEST_CASE("speed: an attempt after the change -> slow or fast once its first points have settled") {
  Noise noise(17);
  Run run;
  for (int i = 0; i < 100; ++i) run.step(10'000 * (1 + 0.004 * noise()));
  for (int i = 0; i < 20; ++i) run.step(10'700 * (1 + 0.004 * noise()));
  REQUIRE(run.told.size() == 1);
  std::optional<bool> slow;
  begin_attempt(run.watch);
  for (int i = 0; i < 12 && !slow; ++i) slow = run.step(10'700 * (1 + 0.004 * noise()));
  CHECK(slow == true);
  slow.reset();
  begin_attempt(run.watch);
  for (int i = 0; i < 12 && !slow; ++i) slow = run.step(10'000 * (1 + 0.004 * noise()));
  CHECK(slow == false);
}

TEST_CASE("speed: compute times that name one rank -> its node; that name all in turn -> none") {
  Noise noise(19);
  for (const bool one : {true, false}) {
    Run run;
    for (int i = 0; i < 100; ++i) run.step(10'000 * (1 + 0.004 * noise()));
    for (int i = 0; i < 16; ++i) {
      run.p.slowest =
          wire::SlowestRank{Rank(3), NodeName(one || i % 2 == 0 ? "n2" : "n4"), 9900, 9300};
      run.step(10'700 * (1 + 0.004 * noise()));
    }
    REQUIRE(run.watch.slow.has_value());
    CHECK(slow_node(*run.watch.slow) == (one ? std::optional(NodeName("n2")) : std::nullopt));
  }
}
