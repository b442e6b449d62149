// What was logged before, against what a start shows.
#include "core/recover/resume_trail.hpp"

#include <doctest/doctest.h>

#include "core/nodes/bisect.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

double wave(std::uint64_t n) {  // a hard batch now and then
  const std::uint64_t mixed = n * 2654435761u % 1000;
  return static_cast<double>(mixed) / 10'000;
}

Trail trained(std::uint64_t from, std::uint64_t to, std::uint64_t batch = 64) {
  Trail trail;
  for (std::uint64_t n = from; n <= to; ++n)
    record(trail, {Iteration(n), n * batch, n * batch * 2048, 6e-5, 2.2 + wave(n), 1, 0});
  return trail;
}

std::string wrong(const std::vector<wire::AuditItem>& items) {
  std::string text;
  for (const auto& item : items)
    if (!item.equal) text += item.what + ";";
  return text;
}

ResumeCheck check_from(std::uint64_t from, std::uint64_t saved) {
  ResumeCheck check;
  check.due = true;
  check.from = Iteration(from);
  check.saved = Iteration(saved);
  return check;
}

}  // namespace

TEST_CASE("trail: a start that goes on where the line was -> nothing is different") {
  Trail trail = trained(1, 120);
  trail.check = check_from(100, 100);
  const TrailPoint first{Iteration(101), 101 * 64, 0, 6e-5, 2.2, 1, 0};
  CHECK(wrong(compare_start(trail, first)).empty());
  CHECK(compare_rate(trail, first)->equal);
}

TEST_CASE(
    "trail: samples counted from zero, an old checkpoint, a learning rate from the start -> "
    "named") {
  Trail trail = trained(1, 120);
  trail.check = check_from(100, 100);
  CHECK(wrong(compare_start(trail, {Iteration(101), 64, 0, 6e-5, 2.2, 1, 0})) ==
        "consumed samples;");
  CHECK(wrong(compare_start(trail, {Iteration(61), 61 * 64, 0, 6e-5, 2.2, 1, 0})) == "iteration;");
  CHECK_FALSE(compare_rate(trail, {Iteration(101), 101 * 64, 0, 3.75e-8, 2.2, 1, 0})->equal);
  CHECK_FALSE(compare_rate(trail, {Iteration(101), 101 * 64, 0, 1.2e-4, 2.2, 1, 0})->equal);
  trail.check.rate_factor = 2;  // ordered by a rollback
  CHECK(compare_rate(trail, {Iteration(101), 101 * 64, 0, 1.2e-4, 2.2, 1, 0})->equal);
}

TEST_CASE(
    "trail: tokens counted from zero, a loss scale from the start -> named; unknown -> nothing") {
  Trail trail = trained(1, 120);
  for (TrailPoint& p : trail.points) p.scale = 65536;
  trail.check = check_from(100, 100);
  TrailPoint first{Iteration(101), 101 * 64, 101 * 64 * 2048, 6e-5, 2.2, 1, 65536};
  CHECK(wrong(compare_start(trail, first)).empty());
  CHECK(compare_scale(trail, first)->equal);
  first.tokens = 64 * 2048;
  first.scale = 4294967296.0;
  CHECK(wrong(compare_start(trail, first)) == "consumed tokens;");
  CHECK_FALSE(compare_scale(trail, first)->equal);
  trail.check.skip = 640;  // a rollback leaves samples out: their tokens are missing too
  first = {Iteration(101), 111 * 64, 111 * 64 * 2048, 6e-5, 2.2, 1, 0};
  CHECK(wrong(compare_start(trail, first)).empty());
  CHECK_FALSE(compare_scale(trail, first));
}

TEST_CASE("trail: a thinned line and a ramp -> samples and rates between its points are known") {
  Trail trail;
  std::uint64_t samples = 0;
  for (std::uint64_t n = 1; n <= 5000; ++n) {
    samples += 32 + n / 10;
    record(trail, {Iteration(n), samples, 0, 6e-5 * static_cast<double>(n) / 5000, 3, 1, 0});
  }
  CHECK(trail.points.size() <= kTrailPoints);
  std::uint64_t at = 0;
  for (std::uint64_t n = 1; n <= 4000; ++n) at += 32 + n / 10;
  trail.check = check_from(3999, 3999);
  const double rate = 6e-5 * 4000 / 5000;
  CHECK(wrong(compare_start(trail, {Iteration(4000), at, 0, rate, 3, 1, 0})).empty());
  CHECK(compare_rate(trail, {Iteration(4000), at, 0, rate, 3, 1, 0})->equal);
  CHECK(wrong(compare_start(trail, {Iteration(4000), at / 2, 0, rate, 3, 1, 0})) ==
        "consumed samples;");
}

TEST_CASE("trail: losses of a fresh model -> not the weights that were saved") {
  Trail trail = trained(1, 120);
  trail.check = check_from(100, 100);
  turn_back(trail, Iteration(100));
  CHECK(trail.left.size() == 20);
  trail.check.count = 20;
  trail.check.sum = 20 * 2.3;
  CHECK(compare_level(trail)->equal);
  trail.check.sum = 20 * 10.8;
  CHECK_FALSE(compare_level(trail)->equal);
}

TEST_CASE("trail: the same data in the same order -> losses alike; shuffled -> not") {
  Trail trail = trained(1, 140);
  turn_back(trail, Iteration(100));
  Trail same = trail, other = trail;
  for (std::uint64_t n = 101; n <= 140; ++n) {
    record(same, {Iteration(n), 0, 0, 0, 2.2 + wave(n) + 0.1 * wave(n + 7), 1, 0});
    record(other, {Iteration(n), 0, 0, 0, 2.2 + wave(n * 31 + 5), 1, 0});
  }
  CHECK(*likeness(same.points, same.left, 16) > 0.9);
  CHECK(*likeness(other.points, other.left, 16) < 0.3);
  CHECK_FALSE(likeness(same.points, same.left, 100).has_value());
}

TEST_CASE(
    "bisect: one slow node of 48 -> found by halves in ceil(log2 48) = 6 starts, with 3 spares in "
    "17") {
  CHECK(rounds_left(48, 24) == 6);
  for (const std::size_t free : {std::size_t{24}, std::size_t{3}}) {
    std::uint32_t worst = 0;
    for (int guilty = 0; guilty < 48; ++guilty) {
      Bisect bisect;
      std::vector<NodeName> all;
      for (int i = 0; i < 48; ++i) all.emplace_back("n" + std::to_string(100 + i));
      bisect.suspects = all;
      bisect.of = 48;
      std::uint32_t rounds = 0;
      while (bisect.suspects.size() > 1 && rounds < 60) {
        const auto out = next_out(bisect, free);
        std::vector<NodeName> in;
        for (const NodeName& node : all)
          if (std::find(out.begin(), out.end(), node) == out.end()) in.push_back(node);
        const bool slow =
            std::find(in.begin(), in.end(), all[static_cast<std::size_t>(guilty)]) != in.end();
        observe(bisect, Iteration(rounds), in, slow);
        ++rounds;
      }
      CHECK(bisect.suspects == std::vector<NodeName>{all[static_cast<std::size_t>(guilty)]});
      worst = std::max(worst, rounds);
    }
    CHECK(worst == rounds_left(48, free));
  }
}

TEST_CASE("bisect: spares for all suspects -> half of them, or it would never end") {
  Bisect bisect;
  bisect.suspects = {NodeName("a"), NodeName("b")};
  CHECK(next_out(bisect, 2).size() == 1);
  CHECK(next_out(bisect, 1).size() == 1);
  CHECK(next_out(bisect, 0).empty());
  CHECK(observe(bisect, Iteration(1), {NodeName("a"), NodeName("b")}, true).empty());
}

TEST_CASE("trail: the end of a warm-up between two sparse points -> no rate above them is wrong") {
  Trail trail;
  for (const auto& [n, rate] : std::vector<std::pair<std::uint64_t, double>>{
           {10, 1e-5}, {20, 2e-5}, {200, 5e-5}, {210, 4.9e-5}})
    record(trail, {Iteration(n), n * 8, 0, rate, 5, 1, 0});
  trail.check = check_from(100, 100);
  CHECK(compare_rate(trail, {Iteration(101), 808, 0, 1e-4, 5, 1, 0})->equal);
  CHECK_FALSE(compare_rate(trail, {Iteration(101), 808, 0, 1e-6, 5, 1, 0})->equal);
}

TEST_CASE(
    "trail: an early loss that falls fast -> the same iterations are compared, not later ones") {
  Trail trail;
  for (std::uint64_t n = 1; n <= 100; ++n)
    record(trail, {Iteration(n), n * 8, 0, 1e-4, 10.8 - 0.06 * static_cast<double>(n), 1, 0});
  trail.check = check_from(20, 20);
  turn_back(trail, Iteration(20));
  for (std::uint64_t n = 21; n <= 30; ++n)
    record(trail, {Iteration(n), n * 8, 0, 1e-4, 10.8 - 0.06 * static_cast<double>(n), 1, 0});
  trail.check.count = 10;
  trail.check.sum = 10 * 9.3;
  CHECK(compare_level(trail)->equal);
  trail.check.sum = 10 * 14.0;
  CHECK_FALSE(compare_level(trail)->equal);
}

TEST_CASE("trail: two rollbacks in a row -> the rate that both ask for is as ordered") {
  Trail trail;
  for (std::uint64_t n = 1; n <= 120; ++n) {
    record(trail, {Iteration(n), n * 64, 0, 4.5e-5, 2.2 + wave(n), 1, 0});
    trail.points.back().rate_scale = 0.75;
  }
  trail.check = check_from(80, 120);
  trail.check.rate_factor = 0.421875;  // of the configuration's
  TrailPoint first{Iteration(81), 81 * 64, 0, 4.5e-5 * 0.5625, 2.2, 1, 0};
  first.rate_scale = 0.421875;
  CHECK(compare_rate(trail, first)->equal);
  first.learning_rate = 4.5e-5 * 0.3;
  CHECK_FALSE(compare_rate(trail, first)->equal);
}

TEST_CASE(
    "trail: a start in the middle of the warm-up -> a rate that grew meanwhile is as before") {
  Trail trail;
  record(trail, {Iteration(14), 14 * 64, 0, 1.68e-6, 9, 14, 0});
  CHECK(compare_rate(trail, {Iteration(24), 24 * 64, 0, 2.88e-6, 9, 1, 0})->equal);
  CHECK_FALSE(compare_rate(trail, {Iteration(24), 24 * 64, 0, 6e-5, 9, 1, 0})->equal);
}

TEST_CASE("trail: samples that a rollback left out -> no jump that the next starts must show") {
  Trail trail = trained(1, 100);
  for (std::uint64_t n = 101; n <= 102; ++n)
    record(trail, {Iteration(n), n * 64 + 18'000, 0, 6e-5, 2.2, 1, 0});
  trail.points.erase(trail.points.end() - 1);  // the newest knows only the jump
  const auto samples = samples_at(trail, Iteration(119));
  REQUIRE(samples);
  CHECK(samples->low <= 119 * 64 + 18'000);
  CHECK(samples->high >= 119 * 64 + 18'000);
}

TEST_CASE("trail: a rollback left samples out, and points were thinned -> each side by its own") {
  Trail trail;
  const auto run = [&](std::uint64_t from, std::uint64_t to, std::uint64_t left_out) {
    for (std::uint64_t i = from + 1; i <= to; ++i) {
      TrailPoint point;
      point.iteration = Iteration(i);
      point.samples = 512 * i + left_out;
      point.count = 1;
      if (i == from + 1) {
        turn_back(trail, Iteration(from));
        note_break(trail, Iteration(from), point);
      }
      record(trail, point);
    }
  };
  const auto at = [&](std::uint64_t i) { return samples_at(trail, Iteration(i)).value(); };
  run(0, 12'000, 0);
  CHECK(trail.breaks.empty());
  run(9000, 14'000, 2'000'000);
  CHECK(at(9000).low == doctest::Approx(512 * 9000));
  CHECK(at(9000).high == doctest::Approx(512 * 9000));
  CHECK(at(8990).high == doctest::Approx(512 * 8990));
  CHECK(at(9001).low == doctest::Approx(512 * 9001 + 2'000'000));
  CHECK(at(9100).high == doctest::Approx(512 * 9100 + 2'000'000).epsilon(0.01));
  run(8000, 9500, 3'000'000);  // back in front of the break: it is of the line that was left
  CHECK(at(8000).high == doctest::Approx(512 * 8000));
  CHECK(at(9000).low == doctest::Approx(512 * 9000 + 3'000'000).epsilon(0.01));
  CHECK(trail.breaks.size() == 1);
}

TEST_CASE("trail: the loss still falls, the data are others -> the fall alone is no likeness") {
  std::vector<TrailPoint> one, same, other;
  for (std::uint64_t n = 300; n < 340; ++n) {
    const double fall = 900.0 / (150.0 + static_cast<double>(n));
    one.push_back({Iteration(n), n, 0, 6e-5, fall + wave(n), 1, 0});
    same.push_back({Iteration(n), n, 0, 6e-5, fall + wave(n) + 0.001, 1, 0});
    other.push_back({Iteration(n), n, 0, 6e-5, fall + wave(n * 31 + 7), 1, 0});
  }
  CHECK(*likeness(one, same, 16) > 0.9);
  CHECK(*likeness(one, other, 16) < 0.3);
}
