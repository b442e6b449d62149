// Which nodes on parole a short test convicts.
#include "recipe/node_bench.hpp"

#include <doctest/doctest.h>
#include <limits>

using namespace stoker;
using namespace stoker::recipe;

namespace {

const NodeName kTested("n09");

std::map<NodeName, NodeFigures> site(const NodeFigures& own) {
  std::map<NodeName, NodeFigures> figures;
  for (const char* name : {"n01", "n02", "n03"})
    figures[NodeName(name)] = {{"gemm_f32", 100}, {"memory_copy", 20}, {"disk_write", 400}};
  figures[NodeName("n03")]["gemm_f32"] = 104;
  if (!own.empty()) figures[kTested] = own;
  return figures;
}

}  // namespace

TEST_CASE("judge_bench: as the others, or a little slower -> no node") {
  CHECK(judge_bench({kTested}, site({{"gemm_f32", 98}, {"memory_copy", 19}})).empty());
  CHECK(judge_bench({kTested}, site({{"gemm_f32", 52}, {"memory_copy", 11}})).empty());
  CHECK(judge_bench({kTested}, site({{"gemm_f32", 98}, {"disk_write", 30}})).empty());
}

TEST_CASE("judge_bench: clocked down -> convicted by its worst figure, with both numbers") {
  const auto poor =
      judge_bench({kTested}, site({{"gemm_f32", 30}, {"memory_copy", 1}, {"disk_write", 400}}));
  REQUIRE(poor.size() == 1);
  CHECK(poor[0].node == kTested);
  CHECK(poor[0].figure == "memory_copy");
  CHECK(poor[0].usual == 20);
  CHECK(bench_text(poor[0]) == "memory_copy 1, 5 % of the others' median 20; 10 is the limit");
}

TEST_CASE("judge_bench: no answer though the others answered -> convicted") {
  const auto poor = judge_bench({kTested}, site({}));
  REQUIRE(poor.size() == 1);
  CHECK(bench_text(poor[0]) == "did not finish its test though the others did");
}

TEST_CASE("judge_bench: too few others, or others that answer nothing -> no node") {
  std::map<NodeName, NodeFigures> two{{NodeName("n01"), {{"gemm_f32", 100}}},
                                      {kTested, {{"gemm_f32", 1}}}};
  CHECK(judge_bench({kTested}, two).empty());
  two[NodeName("n02")] = {};
  CHECK(judge_bench({kTested}, two).empty());
  two[NodeName("n02")] = {{"gemm_f32", 90}};
  CHECK(judge_bench({kTested}, two).size() == 1);
}

TEST_CASE("judge_bench: zeros, infinities, no numbers -> not measured") {
  auto figures = site({{"gemm_f32", 0}, {"memory_copy", 20}});
  CHECK(judge_bench({kTested}, figures).empty());
  figures[kTested]["gemm_f32"] = std::numeric_limits<double>::quiet_NaN();
  for (auto& [node, own] : figures)
    if (node != kTested) own["memory_copy"] = std::numeric_limits<double>::infinity();
  CHECK(judge_bench({kTested}, figures).empty());
}

TEST_CASE("judge_bench: all are tested -> each against the rest") {
  const auto figures = site({{"gemm_f32", 30}, {"memory_copy", 20}});
  const std::vector<NodeName> all{NodeName("n01"), NodeName("n02"), NodeName("n03"), kTested};
  const auto poor = judge_bench(all, figures);
  REQUIRE(poor.size() == 1);
  CHECK(poor[0].node == kTested);
  CHECK(poor[0].limit == 50);
}
