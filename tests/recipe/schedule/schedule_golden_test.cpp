// The golden numbers of the schedules (F = I = W = 1) and their pictures.
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sstream>

#include "schedules.hpp"

using namespace stoker;
using namespace stoker::recipe;
using namespace stoker::recipe::test;

namespace {

double makespan(ScheduleKind kind, std::uint32_t ranks, std::uint32_t micro_batches,
                std::uint32_t chunks = 1, OpTimes times = {}) {
  return simulate(made(kind, ranks, micro_batches, chunks), times).value().makespan;
}

constexpr auto kGPipe = ScheduleKind::GPipe, kOneFOneB = ScheduleKind::OneFOneB,
               kInterleaved = ScheduleKind::Interleaved, kZbH1 = ScheduleKind::ZbH1,
               kZbV = ScheduleKind::ZbV;

}  // namespace

TEST_CASE("schedules: 4 stages, 8 micro-batches -> the known makespans") {
  CHECK(makespan(kGPipe, 4, 8) == 33);
  CHECK(makespan(kOneFOneB, 4, 8) == 33);
  CHECK(makespan(kInterleaved, 4, 8, 2) == 28.5);
  CHECK(makespan(kInterleaved, 4, 8, 4) == 26.25);
  CHECK(makespan(kZbH1, 4, 8) == 27);
  CHECK(makespan(kZbV, 4, 8, 2) == 25.5);
}

TEST_CASE("schedules: 8 stages, 16 micro-batches -> the known makespans") {
  CHECK(makespan(kOneFOneB, 8, 16) == 69);
  CHECK(makespan(kInterleaved, 8, 16, 2) == 58.5);
  CHECK(makespan(kInterleaved, 8, 16, 4) == 53.25);
  CHECK(makespan(kZbH1, 8, 16) == 55);
  CHECK(makespan(kZbV, 8, 16, 2) == 51.5);
}

TEST_CASE("schedules: BLOOM's 12 stages and 49 micro-batches -> makespans and bubbles") {
  const auto bubble = [](ScheduleKind kind, std::uint32_t chunks) {
    return simulate(made(kind, 12, 49, chunks), {}).value().bubble();
  };
  CHECK(makespan(kOneFOneB, 12, 49) == 180);
  CHECK(makespan(kZbH1, 12, 49) == 158);
  CHECK(makespan(kZbV, 12, 49, 2) == 152.5);
  CHECK(bubble(kOneFOneB, 1) == doctest::Approx(0.183).epsilon(0.003));
  CHECK(bubble(kZbH1, 1) == doctest::Approx(0.070).epsilon(0.01));
  CHECK(bubble(kZbV, 2) == doctest::Approx(0.036).epsilon(0.01));
}

TEST_CASE("schedules: 0.1 a hop -> the known makespans") {
  const OpTimes hop{1, 1, 1, 0.1};
  CHECK(makespan(kOneFOneB, 4, 8, 1, hop) == doctest::Approx(34.6));
  CHECK(makespan(kInterleaved, 4, 8, 2, hop) == doctest::Approx(29.9));
  CHECK(makespan(kZbH1, 4, 8, 1, hop) == doctest::Approx(28.2));
  CHECK(makespan(kZbV, 4, 8, 2, hop) == doctest::Approx(26.8));
}

TEST_CASE("schedules: full recomputation, I = 2 -> the known makespans") {
  const OpTimes recompute{1, 2, 1, 0};
  CHECK(makespan(kOneFOneB, 4, 8, 1, recompute) == 44);
  CHECK(makespan(kZbH1, 4, 8, 1, recompute) == 38);
  CHECK(makespan(kZbV, 4, 8, 2, recompute) == 35);
}

TEST_CASE("schedules: 4 stages, 8 micro-batches -> the known peaks of activations") {
  CHECK(peaks(made(kGPipe, 4, 8)) == std::vector<double>{8, 8, 8, 8});
  CHECK(peaks(made(kOneFOneB, 4, 8)) == std::vector<double>{4, 3, 2, 1});
  CHECK(peaks(made(kInterleaved, 4, 8, 2)) == std::vector<double>{5.5, 4.5, 3.5, 2.5});
  CHECK(peaks(made(kZbH1, 4, 8)) == std::vector<double>{4, 4, 4, 4});
  CHECK(peaks(made(kZbV, 4, 8, 2)) == std::vector<double>{4, 4, 4, 4});
}

// pictures.txt has a block a shape: "== KIND STAGES MICRO-BATCHES CHUNKS picture|operations", then
// what is drawn. STOKER_REWRITE=1 writes what the code draws; review the difference.
TEST_CASE("schedules: pictures.txt -> what is drawn") {
  const std::string path = STOKER_SOURCE_DIR "/tests/recipe/schedule/pictures.txt";
  std::ifstream in(path);
  std::string line, expected, drawn;
  for (std::size_t blocks = 0; std::getline(in, line);) {
    expected += line + "\n";
    if (!line.starts_with("== ")) continue;
    std::istringstream words(line.substr(3));
    std::string kind, what;
    std::uint32_t ranks = 0, micro_batches = 0, chunks = 0;
    words >> kind >> ranks >> micro_batches >> chunks >> what;
    CAPTURE(line);
    REQUIRE(enum_from<ScheduleKind>(kind).has_value());
    const PipelineSchedule s = made(*enum_from<ScheduleKind>(kind), ranks, micro_batches, chunks);
    if (blocks++ > 0) drawn += "\n";
    drawn += line + "\n";
    drawn += what == "picture" ? draw_schedule(s).value() : list_operations(lower(s, true).value());
  }
  if (std::getenv("STOKER_REWRITE") != nullptr) std::ofstream(path) << drawn;
  CHECK(drawn.size() > 1000);
  CHECK(drawn == expected);
}
