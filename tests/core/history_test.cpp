// History: what can be drawn of a run, from its journal rows. Chronicle: what others said is text
// in it.
// in it.
#include "core/publish/history.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

#include "core/publish/chronicle.hpp"
#include "core/publish/downsample.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

// Rows of the run "hello", one a second.
class Rows {
 public:
  explicit Rows(std::size_t most = 1000) : history(RunName("hello"), most) {}
  void row(EventBody body, const std::string& to, const std::string& reason = "") {
    JournalRow r;
    r.seq = Sequence(++second);
    r.event.at = Instant(std::chrono::seconds(second));
    r.event.wall = WallTime(std::chrono::seconds(1'700'000'000 + second));
    r.event.run = RunName("hello");
    r.event.body = std::move(body);
    r.decision = {state, to, reason, {}, false};
    state = to;
    history.take(r);
  }
  void digest(std::uint64_t iteration, double loss, double high, const char* to = "training") {
    Digest d;
    d.last.iteration_max = Iteration(iteration);
    d.last.phase = wire::Phase::Iteration;
    d.last.consumed_samples = iteration * 8;
    d.losses = {10, loss, loss, high, Iteration(iteration), 0, 0, 0, 0, {}};
    d.iteration_ms = {10, 100, 150, 400};
    row(d, to);
  }
  void agent(wire::AgentBody body) {
    AgentSaid said;
    said.generation = Generation(3);
    said.event.body = std::move(body);
    row(said, state);
  }
  History history;
  std::uint64_t second = 0;
  std::string state = "starting";
};

const Spread& value(const HistoryPoint& point, Metric metric) {
  return point.values[static_cast<std::size_t>(metric)];
}

HistoryPoint point_of(std::int64_t at, float low, float high) {
  HistoryPoint point;
  point.wall_ms = at;
  point.iteration = static_cast<std::uint64_t>(at);
  point.values.fill({low, low, high});
  return point;
}

// Of a run that an operator stops with these words.
std::string chronicle_of(const std::string& reason) {
  JournalRow row;
  row.seq = Sequence(1);
  row.event.at = Instant(1s);
  row.event.wall = WallTime(1700000000s);
  row.event.run = RunName("hello");
  row.event.body = OperatorAsked{};
  row.decision = {"training", "stopping", reason, {}, false};
  Chronicle story(RunName("hello"));
  CHECK(story.tell(row));
  return story.text();
}

}  // namespace

TEST_CASE("history: digests -> points with lowest, usual and highest") {
  Rows rows;
  rows.digest(10, 3.0, 9.5);
  rows.digest(20, 2.5, 2.6);
  const auto& points = rows.history.points();
  REQUIRE(points.size() == 2);
  CHECK(value(points[0], Metric::Loss).high == doctest::Approx(9.5));
  CHECK(value(points[0], Metric::Loss).mid == doctest::Approx(3.0));
  CHECK(value(points[1], Metric::StepTime).high == doctest::Approx(0.4));
  CHECK(value(points[1], Metric::SamplesPerSecond).mid == doctest::Approx(80));
  CHECK(value(points[1], Metric::SamplesPerSecond).low == doctest::Approx(20));
  CHECK_FALSE(std::isfinite(value(points[1], Metric::GradientNorm).mid));
}

TEST_CASE("history: rows of another run or taken before -> change nothing") {
  Rows rows;
  rows.digest(10, 3, 3);
  JournalRow again;
  again.seq = Sequence(1);
  again.event.run = RunName("hello");
  again.event.body = Digest{};
  rows.history.take(again);
  again.seq = Sequence(9);
  again.event.run = RunName("other");
  rows.history.take(again);
  CHECK(rows.history.points().size() == 1);
  CHECK(rows.history.taken() == Sequence(1));
}

TEST_CASE("history: more points than it keeps -> older ones are folded, no spike is lost") {
  Rows rows(100);
  for (std::uint64_t i = 1; i <= 1000; ++i) rows.digest(i, 2.0, i == 17 ? 50.0 : 2.0);
  const auto& points = rows.history.points();
  CHECK(points.size() < 100);
  const auto highest =
      std::max_element(points.begin(), points.end(), [](const auto& a, const auto& b) {
        return value(a, Metric::Loss).high < value(b, Metric::Loss).high;
      });
  CHECK(value(*highest, Metric::Loss).high == doctest::Approx(50));
  CHECK(points.back().iteration == 1000);
  CHECK(std::is_sorted(points.begin(), points.end(),
                       [](const auto& a, const auto& b) { return a.wall_ms < b.wall_ms; }));
}

TEST_CASE("history: a hang and its restart -> one incident with the sentences of the decisions") {
  Rows rows;
  rows.digest(100, 2, 2);
  rows.row(Tick{}, "suspect", "rank 3 stalled for 61 s; stacks are collected");
  rows.row(Tick{}, "recovering", "rank 3 on n02 hangs; restart without n02");
  wire::AttemptStarted started;
  started.attempt = Attempt(2);
  started.iteration = Iteration(90);
  started.world_size = 4;
  started.nodes = {NodeName("n01"), NodeName("n03")};
  rows.agent(started);
  rows.digest(91, 2, 2, "recovering");
  rows.row(Tick{}, "training", "the training goes on");
  REQUIRE(rows.history.incidents().size() == 1);
  const HistoryIncident& incident = rows.history.incidents()[0];
  CHECK(incident.title == "rank 3 stalled for 61 s");
  CHECK(incident.lines.size() == 3);
  CHECK(incident.lines[1].text == "rank 3 on n02 hangs; restart without n02");
  CHECK(incident.repeated == 10);
  CHECK(incident.ended_in == "training");
  REQUIRE(incident.to);
  CHECK(*incident.to - incident.from == 4s);
  CHECK(rows.history.ranks().nodes == std::vector<std::string>{"n01", "n03"});
  CHECK(rows.history.ranks().generation == 3);
}

TEST_CASE("history: goodput -> the share of the time in iterations that were never done before") {
  Rows rows;
  rows.digest(10, 2, 2);  // to training
  for (int i = 0; i < 6; ++i) rows.digest(11, 2, 2);
  rows.row(Tick{}, "recovering", "rank 1 died");
  rows.row(Tick{}, "recovering", "");
  rows.row(Tick{}, "training", "goes on");
  rows.digest(12, 2, 2);
  // 7 s and 1 s in training, 2 s down
  CHECK(value(rows.history.points().back(), Metric::Goodput).mid == doctest::Approx(0.8));
}

TEST_CASE("history: checkpoints -> saved, deleted, damaged, the newest kept") {
  Rows rows;
  rows.agent(wire::CheckpointSaved{Iteration(10), "step-10", 1 << 20, 0.5});
  rows.agent(wire::CheckpointSaved{Iteration(20), "step-20", 1 << 20, 0.5});
  rows.agent(wire::CheckpointsDeleted{{"step-10"}});
  rows.agent(wire::DamagedCheckpoint{"step-20", "shard-0001.bin is torn"});
  REQUIRE(rows.history.checkpoints().size() == 2);
  CHECK(rows.history.checkpoints()[0].fate == "deleted");
  CHECK(rows.history.checkpoints()[1].fate == "damaged: shard-0001.bin is torn");
}

TEST_CASE("downsample: a spike of one point in 100,000 -> in the answer, at any number of points") {
  std::vector<HistoryPoint> points;
  for (int i = 0; i < 100'000; ++i) points.push_back(point_of(i, 1, i == 77'777 ? 100.0F : 1.0F));
  points[5].values.fill({-3, 1, 1});
  for (const std::size_t most : {1U, 2U, 37U, 1000U}) {
    const auto samples = downsample(points, Metric::Loss, most);
    REQUIRE(samples.size() == most);
    float low = 1, high = 1;
    for (const Sample& s : samples) low = std::min(low, s.low), high = std::max(high, s.high);
    CHECK(low == -3);
    CHECK(high == 100);
    CHECK(samples.back().iteration == 99'999);
  }
}

TEST_CASE("downsample: fewer points than wanted, points without the number, none") {
  std::vector<HistoryPoint> points{point_of(1, 1, 2), point_of(2, 3, 4)};
  CHECK(downsample(points, Metric::Loss, 600).size() == 2);
  points[0].values.fill({NAN, NAN, NAN});
  const auto samples = downsample(points, Metric::Loss, 600);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].low == 3);
  CHECK(downsample({}, Metric::Loss, 600).empty());
}

TEST_CASE("chronicle: markup in a reason -> text, in the heading and in its lines") {
  const std::string text = chronicle_of("stopped by ann: <script>x</script> [a](b)");
  CHECK(text.find("<script>x") == text.find("\\<script>x") + 1);
  CHECK(text.find("## Stopped by ann: \\<script>x\\</script> [a]\\(b). (2023") !=
        std::string::npos);
  CHECK(text.find(" Stopped by ann: \\<script>x\\</script> [a]\\(b).\n") != std::string::npos);
}

TEST_CASE("chronicle: new lines, controls and reordering in a reason -> one line, nothing obeyed") {
  const std::string text =
      chronicle_of("stopped by ann: \x1b[2J\u202e\n\n## Finished\n* 10:00 lost");
  CHECK(text.find_first_of("\x1b\r") == std::string::npos);
  CHECK(text.find("\u202e") == std::string::npos);
  CHECK(text.find("\n## Finished") == std::string::npos);
  CHECK(text.find("\n* 10:00 lost") == std::string::npos);
  CHECK(text.find(" Stopped by ann:  [2J?  ## Finished \\* 10:00 lost.\n") != std::string::npos);
}
