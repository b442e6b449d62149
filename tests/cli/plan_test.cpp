// `stoker plan` on the three published trainings of configs/examples: the figures of their
// chronicles.
#include <cmath>

#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

// A copy of the example, with an agent that exists where no other program of stoker is built.
std::string example(const Site& site, const std::string& name) {
  const std::string from = STOKER_SOURCE_DIR "/configs/examples/" + name;
  const std::string to = site.folder() + "/" + name;
  site.write(to + "/run.yaml", site.read(from + "/run.yaml") + "  agent: /bin/true\n");
  site.write(to + "/train.yaml", site.read(from + "/train.yaml"));
  return to + "/run.yaml";
}

Json plan_of(const Site& site, const std::string& name, std::vector<std::string> options = {},
             int code = 0) {
  std::vector<std::string> arguments{"plan", example(site, name), "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Said said = site.stoker(arguments);
  REQUIRE_MESSAGE(said.code == code, said.err);
  CHECK(said.err == "");
  return parse_json(said.out, "plan").value();
}

std::vector<std::uint64_t> legal_nodes(const Json& plan) {
  return plan.at("legal_nodes").get<std::vector<std::uint64_t>>();
}

}  // namespace

TEST_CASE("plan tr1: 13B on tensor 2 x pipeline 4 -> 32 nodes at most, 64 from batch 1024") {
  const Site site;
  const Json now = plan_of(site, "tr1", {"--nodes", "32"});
  CHECK(std::round(now.at("parameters").get<double>() / 1e9) == 13);
  CHECK(legal_nodes(now) == std::vector<std::uint64_t>{2, 4, 8, 16, 32});
  CHECK(now.at("iterations") == 311'541);
  CHECK(now.at("mesh").at("replica_ranks") == 8);
  const Json& phases = now.at("mesh").at("stages").at("phases");
  CHECK(phases[1].at("iteration") == 4961);
  CHECK(phases[2].at("iteration") == 7441);
  CHECK(phases[0].at("micro_batches") == 1);
  CHECK(phases[0].at("bubble") == 0.75);   // "the pipeline was very inefficient"
  const Json both = plan_of(site, "tr1");  // 32 nodes first, then 64, as RUN.yaml says
  CHECK(both.at("nodes") == 64);
  CHECK(both.at("mesh").at("stages").at("phases").size() == 1);
  const Json later = plan_of(site, "tr1", {"--nodes", "64"}, 1);
  CHECK_FALSE(later.at("legal").get<bool>());
  CHECK(later.at("legal_from").at("global_batch_size") == 1024);
}

TEST_CASE("plan tr8: 104B on tensor 4 x pipeline 32 -> 128 GPUs a replica, 1,872 GB") {
  const Site site;
  const Json plan = plan_of(site, "tr8");
  CHECK(std::round(plan.at("parameters").get<double>() / 1e9) == 104);
  CHECK(plan.at("mesh").at("replica_ranks") == 128);
  CHECK(plan.at("mesh").at("replica_bytes") == 18 * plan.at("parameters").get<std::uint64_t>());
  CHECK(plan.at("mesh").at("replica_bytes").get<double>() ==
        doctest::Approx(1872e9).epsilon(0.001));
  CHECK(plan.at("mesh").at("stages").at("ranks").size() == 32);
}

TEST_CASE("plan tr11: 176B -> 49 micro-batches, bubble 18.3 %, 124.7 days, 149.02 TFLOPs") {
  const Site site;
  const Json plan = plan_of(site, "tr11", {"--iteration-time", "105s", "--done", "12695"});
  CHECK(plan.at("iterations") == 115'311);
  CHECK(plan.at("eta_s").get<double>() == doctest::Approx((115311 - 12695) * 105.0).epsilon(1e-9));
  CHECK(plan.at("eta_s").get<double>() / 86400 == doctest::Approx(124.7).epsilon(0.0005));
  bool seen = false;
  for (const Json& phase : plan.at("mesh").at("stages").at("phases"))
    if (phase.at("global_batch_size") == 784) {
      seen = true;
      CHECK(phase.at("micro_batch_size") == 2);
      CHECK(phase.at("micro_batches") == 49);
      CHECK(phase.at("bubble").get<double>() == doctest::Approx(0.183).epsilon(0.003));
    }
  CHECK(seen);
  const Json& ranks = plan.at("mesh").at("stages").at("ranks");
  CHECK(ranks[0].at("layers") == 5);
  CHECK(ranks[1].at("layers") == 6);
  CHECK(ranks[11].at("layers") == 5);
  CHECK(ranks[0].at("in_flight") == 12);
  const Json log = plan_of(site, "tr11", {"--iteration-time", "105.22s"});
  CHECK(log.at("tflops").get<double>() == doctest::Approx(149.02).epsilon(0.00005));
}

TEST_CASE("plan: in text -> mesh, replica, bubble and stages, and what cannot be trained yet") {
  const Site site;
  const Said said =
      site.stoker({"plan", example(site, "tr11"), "--iteration-time", "105s", "--done", "12695"});
  REQUIRE_MESSAGE(said.code == 0, said.err);
  for (const char* part :
       {"tensor 4 x pipeline 12 (1f1b) x data 8", "48 GPUs, 3,17", "(18 B a parameter)",
        "7.9 % with 128 micro-batches, the full batch; 31.4 % with 24, from iteration 1",
        "pipeline rank 0        5 layers, 12 in flight", "pipeline rank 11", "TFLOP/s per GPU"})
    CHECK_MESSAGE(said.out.find(part) != std::string::npos, part);
  CHECK(said.err == "");
}

TEST_CASE("check: a mesh with ZeRO and recomputation -> good") {
  const Site site;
  const Said said = site.stoker({"check", example(site, "tr8")});
  CHECK_MESSAGE(said.code == 0, said.err);
}

TEST_CASE("plan: parallel.schedule is a file -> read beside TRAIN.yaml, validated") {
  const Site site;
  const std::string folder = site.folder() + "/csv";
  site.write(folder + "/run.yaml",
             "run: csv\nscheduler: {kind: slurm, nodes: 2}\n"
             "train: {command: [stoker-train, --config, train.yaml], agent: /bin/true}\n");
  site.write(folder + "/train.yaml",
             "model: {layers: 2, hidden: 8, heads: 2, sequence: 16, vocabulary: 257}\n"
             "data: {train: [{prefix: d}]}\nbatch: {micro: 1, global: 2}\n"
             "parallel: {pipeline: 2, schedule: mine.csv}\n"
             "train: {samples: 1000}\nlr: {max: 1.0e-3, decay_samples: 1000}\n");
  const auto plan = [&](const std::string& csv) {
    site.write(folder + "/mine.csv", csv);
    return site.stoker({"plan", folder + "/run.yaml"});
  };
  const Said good = plan("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK_MESSAGE(good.code == 0, good.err);
  CHECK(good.out.find("33.3 % with 2 micro-batches") != std::string::npos);
  const Said stuck = plan("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  CHECK(stuck.code == 2);
  CHECK(stuck.err.find("deadlock: rank 0 cannot run") != std::string::npos);
  CHECK(stuck.err.find("mine.csv:1:5: 0B0") != std::string::npos);
}
