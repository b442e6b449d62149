// The dry run: every rank of a large mesh in one process, and what a start would refuse.
#include "worker/train/loop/dry_run.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <sstream>

#include "recipe/plan.hpp"
#include "tests/folder.hpp"
#include "worker/train/loop/mesh_walk.hpp"
#include "worker/train/state/flat_state.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace {

DryRun of_example(const std::string& name, std::uint32_t ranks) {
  DryRunOptions o;
  o.config = STOKER_SOURCE_DIR "/configs/examples/" + name + "/train.yaml";
  o.ranks = ranks;
  o.ranks_per_node = 8;
  o.without_data = true;
  return dry_run(o);
}

DryRun of_text(const Folder& folder, const std::string& parallel, std::uint32_t ranks,
               const std::string& more = "", const std::string& checkpoint = "") {
  DryRunOptions o;
  o.config = folder.write(
      "train.yaml",
      "model: {layers: 4, hidden: 32, heads: 4, sequence: 16, vocabulary: 257}\n"
      "data: {train: [{prefix: " +
          folder.path +
          "/nothing}]}\n"
          "batch: {micro: 1, global: 24, ramp_up: {start: 8, increment: 8, samples: 40}}\n"
          "train: {samples: 400}\n"
          "lr: {max: 1.0e-3, decay_samples: 400}\n"
          "checkpoint: {directory: " +
          folder.path + "/checkpoints" + checkpoint +
          "}\n"
          "parallel: {" +
          parallel + "}\n" + more);
  o.ranks = ranks;
  o.without_data = true;
  return dry_run(o);
}

// The row of a pipeline rank, in words.
std::vector<std::string> row_of(const std::string& table, std::uint32_t pipe) {
  std::istringstream lines(table.substr(table.find("\npipeline rank")));
  std::string line;
  for (std::uint32_t i = 0; i < pipe + 3; ++i) std::getline(lines, line);
  std::istringstream words(line);
  std::vector<std::string> row;
  for (std::string word; words >> word;) row.push_back(word);
  return row;
}

}  // namespace

TEST_CASE("dry run: BLOOM on 384 ranks -> a row for each of 12 pipeline ranks") {
  const DryRun run = of_example("tr11", 384);
  CHECK(run.code == ExitCode::Finished);
  REQUIRE(run.refusals.empty());
  INFO(run.table);
  const auto says = [&](const char* text) { return run.table.find(text) != std::string::npos; };
  CHECK(says("tensor 4 x pipeline 12 (1f1b) x data 8 = 384 ranks on 48 nodes; ZeRO-1"));
  CHECK(says("192-2048 samples a step"));
  CHECK(says("in 384 shards"));
  CHECK(says("at sample 0: no checkpoint"));
  const auto first = row_of(run.table, 0), second = row_of(run.table, 1),
             last = row_of(run.table, 11);
  REQUIRE(first.size() > 6);
  CHECK(first[1] == "0-31");
  CHECK(first[2] == "0-4");
  CHECK(first[4] == "12");
  CHECK(second[2] == "5-10");
  CHECK(last[1] == "352-383");
  CHECK(last[2] == "65-69");
  CHECK(last[4] == "1");
}

TEST_CASE("dry run: snapshots in memory -> what a node needs: two of each of its ranks' shards") {
  Folder folder;
  const DryRun run = of_text(folder, "tensor: 2, pipeline: 2", 4, "", ", memory: {every: 10}");
  INFO(run.table);
  const auto says = [&](const char* text) { return run.table.find(text) != std::string::npos; };
  CHECK(says("in 4 shards, the largest 253.1 KiB"));
  CHECK(says("in memory     every 10 iterations, at most 2.0 MiB of a node's memory"));
}

TEST_CASE("dry run: what the batch or the mesh does not allow -> refused at its place") {
  const DryRun mesh = of_example("tr11", 380);
  CHECK(mesh.code == ExitCode::Configuration);
  REQUIRE(mesh.refusals.size() == 1);
  CHECK(mesh.refusals[0].find("tr11/train.yaml:11:20: error: parallel: 380 ranks do not split into "
                              "groups of 48 (tensor 4 x pipeline 12)") != std::string::npos);
  const DryRun batch = of_example("tr11", 48 * 9);  // 192 samples are no multiple of 9
  CHECK(batch.code == ExitCode::Configuration);
  REQUIRE(batch.refusals.size() == 1);
  CHECK(batch.refusals[0].find("train.yaml:10:12: error: ") != std::string::npos);
  CHECK(batch.refusals[0].find("9") != std::string::npos);
  CHECK(batch.table.empty());
}

TEST_CASE("dry run: several things are wrong -> all of them at once") {
  const Folder folder;
  DryRunOptions o;
  (void)of_text(folder, "pipeline: 2, schedule: broken.csv", 3);
  o.config = folder / "train.yaml";
  o.ranks = 3;
  const DryRun run = dry_run(o);
  CHECK(run.code == ExitCode::Configuration);
  REQUIRE(run.refusals.size() == 3);
  CHECK(run.refusals[0].find("train.yaml:2:") != std::string::npos);  // no data
  CHECK(run.refusals[0].find("nothing") != std::string::npos);
  CHECK(run.refusals[1].find("broken.csv") != std::string::npos);
  CHECK(run.refusals[2].find("3 ranks do not split") != std::string::npos);
}

TEST_CASE("dry run: a file that cannot be read, or is no TRAIN.yaml -> its own errors") {
  const Folder folder;
  DryRunOptions o;
  o.config = folder / "none.yaml";
  CHECK(dry_run(o).code == ExitCode::Configuration);
  o.config = folder.write("bad.yaml", "model: {layers: many}\n");
  const DryRun run = dry_run(o);
  CHECK(std::any_of(run.refusals.begin(), run.refusals.end(), [](const std::string& line) {
    return line.find("bad.yaml:1:17: error: ") != std::string::npos;
  }));
}

TEST_CASE("dry run: a step that interleaved cannot cut -> it says which runs in 1F1B's order") {
  const Folder folder;
  const DryRun run = of_text(folder, "pipeline: 2, schedule: interleaved, virtual_stages: 2", 16);
  INFO(run.table);
  REQUIRE(run.refusals.size() == 1);  // the full batch of 24 on 8 replicas: 3 micro-batches
  CHECK(run.refusals[0].find("interleaved") != std::string::npos);
  const DryRun fits = of_text(folder, "pipeline: 2, schedule: interleaved, virtual_stages: 2", 8);
  REQUIRE(fits.refusals.empty());
  CHECK(fits.table.find("0, 2") != std::string::npos);  // the layers of pipeline rank 0
}

TEST_CASE("dry run: checkpoints that could not be saved -> refused, and nothing is created") {
  const Folder folder;
  CHECK(of_text(folder, "tensor: 2", 2).refusals.empty());
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints"));
  folder.write("checkpoints", "a file");
  const DryRun run = of_text(folder, "tensor: 2", 2);
  REQUIRE(!run.refusals.empty());
  CHECK(run.refusals[0].find("train.yaml:6:25: error: ") != std::string::npos);
  CHECK(run.refusals[0].find("checkpoints cannot be saved") != std::string::npos);
}

TEST_CASE("mesh walk: state -> what FlatState allocates on the largest rank, boxes complete") {
  recipe::TrainConfig c;
  c.model.layers = 4, c.model.hidden = 32, c.model.heads = 4, c.model.ffn = 128;
  c.model.sequence = 16, c.model.vocabulary = 257;
  c.parallel.tensor = 2, c.parallel.pipeline = 2;
  c.batch.global = 8;
  c.train.samples = 80;
  for (const recipe::Dtype dtype : {recipe::Dtype::F32, recipe::Dtype::Bf16, recipe::Dtype::F64})
    for (const std::uint32_t zero : {0u, 1u}) {
      c.train.dtype = dtype;
      c.parallel.zero = zero;
      Pipeline pipeline = Pipeline::open(c).value();
      const ModelLayout layout{c.model, {2, 2, 2}, pipeline.rank_of_stage()};
      const auto phases = recipe::BatchPlan::make(c.batch)->phases(c.train.samples);
      const auto plan = recipe::plan_pipeline(c, phases, 2, nullptr);
      REQUIRE(plan);
      const auto walk = walk_mesh(c, layout, pipeline, phases, *plan);
      REQUIRE(walk);
      CHECK(walk->parameters == layout.whole().scalars());
      CHECK(walk->saved == (dtype == recipe::Dtype::F64 ? 24 : 12) * layout.whole().scalars());
      for (std::uint32_t pipe = 0; pipe < 2; ++pipe) {
        std::uint64_t most = 0;
        for (std::uint32_t rank = pipe * 4; rank < pipe * 4 + 4; ++rank) {
          const ParameterTable table = layout.of_rank(rank);
          const FlatRange owned =
              zero > 0 ? own_range(table, layout.mesh, rank) : FlatRange{0, table.flat_size};
          const double each = dtype == recipe::Dtype::F64    ? 16
                              : dtype == recipe::Dtype::Bf16 ? 6
                                                             : 8;
          const double own = dtype == recipe::Dtype::F64    ? 16
                             : dtype == recipe::Dtype::Bf16 ? 12
                                                            : 8;
          most = std::max(most,
                          static_cast<std::uint64_t>(each * static_cast<double>(table.flat_size) +
                                                     own * static_cast<double>(owned.size())));
        }
        CHECK(walk->stages[pipe].state == most);
      }
      CHECK(walk->schedules.walked == 1);
      CHECK(walk->schedules.full == 4);
    }
}
