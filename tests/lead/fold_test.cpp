// Samples of many ranks -> one Beat.
#include "lead/fold.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::lead;

namespace {
wire::RankSample sample(std::uint32_t rank, std::uint64_t iteration, std::int64_t age_ms) {
  wire::RankSample s;
  s.rank = Rank(rank);
  s.reported = s.page = true;
  s.phase = wire::Phase::Iteration;
  s.iteration = Iteration(iteration);
  s.progress_age_ms = age_ms;
  s.iteration_ms = 10;
  s.completed = 2;
  return s;
}
}  // namespace

TEST_CASE("fold: one rank behind -> its age and iteration stand out") {
  std::map<NodeName, NodeSamples> nodes;
  nodes[NodeName("n01")].ranks = {sample(0, 7, 20), sample(1, 7, 30)};
  nodes[NodeName("n02")].ranks = {sample(2, 6, 5000), sample(3, 7, 10)};
  nodes[NodeName("n02")].age_ms = 5;
  const auto beat = fold_beat(Attempt(1), nodes, 60000);
  CHECK(beat.ranks == 4);
  CHECK(beat.reporting == 4);
  CHECK(beat.iteration_min.value == 6);
  CHECK(beat.iteration_max.value == 7);
  CHECK(beat.progress_age_ms == 5005);
  CHECK(beat.newest_progress_age_ms == 15);
  REQUIRE(beat.oldest.size() == 4);
  CHECK(beat.oldest[0].rank.value == 2);
  CHECK(beat.oldest[0].node.text == "n02");
  CHECK(beat.iteration_ms.count == 8);
  CHECK(beat.iteration_ms.p50 == 10);
}

TEST_CASE("fold: a rank that never wrote its page -> as old as the attempt, marked -1") {
  std::map<NodeName, NodeSamples> nodes;
  wire::RankSample silent;
  silent.rank = Rank(1);
  nodes[NodeName("n01")].ranks = {sample(0, 7, 20), silent};
  const auto beat = fold_beat(Attempt(1), nodes, 60000);
  CHECK(beat.progress_age_ms == 60000);
  CHECK(beat.oldest[0].age_ms == -1);
  CHECK(beat.reporting == 1);
}

TEST_CASE("fold: a foreign training where one rank prints for all -> only that one counts") {
  std::map<NodeName, NodeSamples> nodes;
  wire::RankSample printing = sample(3, 9, 100);
  printing.page = false;
  wire::RankSample quiet;
  nodes[NodeName("n01")].ranks = {quiet, printing};
  const auto beat = fold_beat(Attempt(1), nodes, 60000);
  CHECK(beat.progress_age_ms == 100);
  CHECK(beat.phase == wire::Phase::Iteration);
  CHECK(beat.oldest.size() == 1);
}

TEST_CASE("fold: no rank has reported -> startup, as old as the attempt") {
  std::map<NodeName, NodeSamples> nodes;
  nodes[NodeName("n01")].ranks = {wire::RankSample{}};
  const auto beat = fold_beat(Attempt(1), nodes, 1234);
  CHECK(beat.phase == wire::Phase::Startup);
  CHECK(beat.phase_age_ms == 1234);
  CHECK(beat.progress_age_ms == 1234);
}

TEST_CASE("fold: compute times of all ranks -> the slowest one and the median; of some -> none") {
  std::map<NodeName, NodeSamples> nodes;
  nodes[NodeName("n01")].ranks = {sample(0, 7, 20), sample(1, 7, 30)};
  nodes[NodeName("n02")].ranks = {sample(2, 7, 50), sample(3, 7, 10)};
  for (auto& [node, samples] : nodes)
    for (wire::RankSample& s : samples.ranks) s.compute_ms = s.rank.value == 2 ? 99 : 93;
  nodes[NodeName("n01")].ranks[1].losses = {3, 2.5, 2.4, 2.6, Iteration(6), 0, 0, 0.2, 0, {}};
  const auto beat = fold_beat(Attempt(1), nodes, 60000);
  REQUIRE(beat.slowest.has_value());
  CHECK(beat.slowest->rank == Rank(2));
  CHECK(beat.slowest->node == NodeName("n02"));
  CHECK(beat.slowest->ms == 99);
  CHECK(beat.slowest->median_ms == 93);
  CHECK(beat.losses.count == 3);
  nodes[NodeName("n01")].ranks[0].compute_ms = 0;
  CHECK_FALSE(fold_beat(Attempt(1), nodes, 60000).slowest.has_value());
}

TEST_CASE(
    "fold: a foreign training, the rank that prints no iterations says that it saves -> all save") {
  std::map<NodeName, NodeSamples> nodes;
  wire::RankSample printing = sample(3, 9, 90'000);
  printing.page = false;
  wire::RankSample saving;
  saving.rank = Rank(0);
  saving.phase = wire::Phase::Checkpoint;
  saving.phase_age_ms = saving.progress_age_ms = 60'000;
  nodes[NodeName("n01")].ranks = {saving, printing};
  const auto saves = fold_beat(Attempt(1), nodes, 600'000);
  CHECK(saves.phase == wire::Phase::Checkpoint);
  CHECK(saves.phase_age_ms == 60'000);
  CHECK(saves.progress_age_ms == 60'000);
  CHECK(saves.reporting == 1);
  CHECK(saves.iteration_min.value == 9);
  // The save is over: the silence is counted from its end, in the norm of an iteration.
  nodes[NodeName("n01")].ranks[0].phase = wire::Phase::Iteration;
  nodes[NodeName("n01")].ranks[0].phase_age_ms = nodes[NodeName("n01")].ranks[0].progress_age_ms =
      100;
  const auto saved = fold_beat(Attempt(1), nodes, 600'000);
  CHECK(saved.phase == wire::Phase::Iteration);
  CHECK(saved.progress_age_ms == 100);
  // An iteration since: the word is stale.
  nodes[NodeName("n01")].ranks[0].phase = wire::Phase::Checkpoint;
  nodes[NodeName("n01")].ranks[1].progress_age_ms = 50;
  const auto on = fold_beat(Attempt(1), nodes, 600'000);
  CHECK(on.phase == wire::Phase::Iteration);
  CHECK(on.progress_age_ms == 50);
}

TEST_CASE("fold: the power of the GPUs -> of all nodes, or none where one does not measure it") {
  std::map<NodeName, NodeSamples> nodes;
  nodes[NodeName("n1")].gpu_watts = 2500;
  nodes[NodeName("n2")].gpu_watts = 2600;
  CHECK(fold_beat(Attempt(1), nodes, 0).gpu_watts == doctest::Approx(5100));
  nodes[NodeName("n2")].gpu_watts = 0;
  CHECK(fold_beat(Attempt(1), nodes, 0).gpu_watts == 0);
}

TEST_CASE(
    "fold: one rank says the norms of the groups -> the beat has them, and another's losses") {
  std::map<NodeName, NodeSamples> nodes;
  nodes[NodeName("n01")].ranks = {sample(0, 7, 20), sample(1, 7, 30)};
  wire::add(nodes[NodeName("n01")].ranks[0].losses,
            {Iteration(7), 2.5, 1.0, {}, 0, 0, {0.5, 2, 1}});
  for (const std::uint64_t i : {6, 7})
    wire::add(nodes[NodeName("n01")].ranks[1].losses, {Iteration(i), 2.5, 1.0, {}, 0, 0});
  const auto beat = fold_beat(Attempt(1), nodes, 60000);
  CHECK(beat.losses.count == 2);
  CHECK(beat.losses.groups == std::vector<double>{0.5, 2, 1});
}

TEST_CASE(
    "fold: ranks inside a collective -> counted; the one they wait for is listed, however young") {
  std::map<NodeName, NodeSamples> nodes;
  for (std::uint32_t rank = 0; rank < 32; ++rank) {
    wire::RankSample s = sample(rank, 7, 9000 - rank);
    s.waiting = rank != 31;
    nodes[NodeName(rank < 16 ? "n01" : "n02")].ranks.push_back(s);
  }
  auto beat = fold_beat(Attempt(1), nodes, 60000);
  CHECK(beat.waiting == 31);
  REQUIRE(beat.oldest.size() == 8);
  CHECK(beat.oldest[6].rank.value == 6);
  CHECK(beat.oldest[7].rank.value == 31);
  CHECK(beat.oldest[7].waiting == false);
  CHECK(beat.next_age_ms == 9000 - 7);
  for (auto& s : nodes[NodeName("n01")].ranks) s.waiting = false;  // too many to be listed
  beat = fold_beat(Attempt(1), nodes, 60000);
  CHECK(beat.oldest[7].rank.value == 7);
  CHECK(beat.next_age_ms == 9000 - 8);
}

TEST_CASE("fold: the lead stood still until 2 s ago -> no age is greater, no duration spans that") {
  std::map<NodeName, NodeSamples> nodes;
  nodes[NodeName("n01")].ranks = {sample(0, 7, 95'000), sample(1, 8, 100)};
  nodes[NodeName("n01")].ranks[1].iteration_ms = 94'000;
  const auto beat = fold_beat(Attempt(1), nodes, 60'000, 2000);
  CHECK(beat.progress_age_ms == 2000);
  CHECK(beat.newest_progress_age_ms == 100);
  CHECK(beat.iteration_ms.count == 2);
  CHECK(beat.iteration_ms.max == 10);
}
