// `stoker-train schedule`: what it prints, and what it refuses.
#include "worker/train/command/schedule_command.hpp"

#include <doctest/doctest.h>

#include "common/json.hpp"
#include "common/os/files.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace {

ScheduleOptions options_of(const std::string& kind, std::uint32_t stages = 4,
                           std::uint32_t micro_batches = 8) {
  ScheduleOptions o;
  o.kind = kind;
  o.stages = stages;
  o.micro_batches = micro_batches;
  return o;
}

}  // namespace

TEST_CASE("schedule command: 1f1b on 2 stages -> picture, makespan, bubble and peaks") {
  CHECK(schedule_text(options_of("1f1b", 2, 3)).value() ==
        "rank 0 | F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
        "rank 1 | .  F0 B0--- F1 B1--- F2 B2---\n"
        "makespan 12, bubble 25.0 %\n"
        "peak activations 2 1\n");
}

TEST_CASE("schedule command: given times -> they count") {
  ScheduleOptions o = options_of("zb-v");
  o.hop = 0.1;
  CHECK(schedule_text(o)->find("makespan 26.8,") != std::string::npos);
  o.hop = 0;
  o.input = 2;
  CHECK(schedule_text(o)->find("makespan 35,") != std::string::npos);
}

TEST_CASE("schedule command: --csv -> a file that it reads again") {
  const Folder folder;
  ScheduleOptions o = options_of("interleaved");
  o.virtual_stages = 2;
  const std::string drawn = schedule_text(o).value();
  o.csv = true;
  const std::string path = folder.path + "/s.csv";
  REQUIRE(os::replace_file(path, schedule_text(o).value(), os::Durability::Cached).has_value());
  ScheduleOptions again;
  again.file = path;
  CHECK(schedule_text(again).value() == drawn);
  CHECK(drawn.find("makespan 28.5, bubble 15.8 %") != std::string::npos);
}

TEST_CASE("schedule command: --json, --operations -> transfers, slots and reductions") {
  ScheduleOptions o = options_of("zb-h1");
  o.json = true;
  const Json json = parse_json(schedule_text(o).value(), "schedule").value();
  CHECK(json.at("makespan") == 27);
  CHECK(json.at("ranks").size() == 4);
  CHECK(json.at("ranks")[0].at("peak_activations") == 4);
  CHECK(json.at("ranks")[0].at("slots") == 4);
  o.json = false;
  o.operations = true;
  CHECK(schedule_text(o)->find("rank 1 (4 slots): 1RECV_F0 1F0@0") ==
        0 + schedule_text(o)->find("rank 1"));
}

TEST_CASE("schedule command: --svg -> a box for each operation") {
  ScheduleOptions o = options_of("zb-v", 2, 3);
  o.svg = true;
  const std::string svg = schedule_text(o).value();
  std::size_t boxes = 0;
  for (std::size_t at = 0; (at = svg.find("<rect ", at)) != std::string::npos; ++at) ++boxes;
  CHECK(boxes == 2 * 2 * 3 * 3);  // ranks x chunks x micro-batches x (F, I, W)
  CHECK(svg.find("<title>3W2 at ") != std::string::npos);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("schedule command: what cannot be -> one line that says what to do") {
  const auto error = [](ScheduleOptions o) { return schedule_text(o).error().message(); };
  CHECK(
      error(options_of("zb-v2")) ==
      "--kind: there is no schedule \"zb-v2\"; choose gpipe, 1f1b, interleaved, zb-h1 or zb-v, or "
      "give --file FILE.csv");
  CHECK(error(options_of("csv")).find("there is no schedule") != std::string::npos);
  CHECK(error(options_of("interleaved")).find("needs 2 or more virtual stages") !=
        std::string::npos);
  ScheduleOptions odd = options_of("interleaved", 4, 6);
  odd.virtual_stages = 2;
  CHECK(error(odd).find("6 micro-batches are not a multiple of 4") != std::string::npos);
  CHECK(error(options_of("1f1b", 0)).find("a pipeline has 1 to 512") != std::string::npos);
  CHECK(error(options_of("1f1b", 4, 0)).find("at least 1 micro-batch") != std::string::npos);
  CHECK(error(options_of("1f1b", 500, 4'000'000'000u)).find("operations") != std::string::npos);
  ScheduleOptions missing;
  missing.file = "/nonexistent/s.csv";
  CHECK(error(missing).find("/nonexistent/s.csv") != std::string::npos);
  ScheduleOptions times = options_of("1f1b");
  times.forward = 0;
  CHECK(error(times).find("must be above 0") != std::string::npos);
}
