// Whole files: wrapped records, and the corpus of captured logs where it is at hand.
#include "diagnose/input/parse_file.hpp"

#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <iostream>

#include "common/os/files.hpp"
#include "diagnose/parse/iteration_line.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

std::vector<FoundMetrics> read_lines(const std::vector<std::string>& lines) {
  std::vector<FoundMetrics> found;
  MetricsReader reader([&found](const FoundMetrics& m) { found.push_back(m); });
  for (const auto& line : lines) reader.line(line);
  reader.finish();
  return found;
}

// Names of the corpus for fields that `stoker parse` calls otherwise.
std::optional<double> value_of(const IterationMetrics& m, const std::string& key) {
  const auto count = [](const std::optional<std::uint64_t>& v) -> std::optional<double> {
    if (!v) return std::nullopt;
    return static_cast<double>(*v);
  };
  if (key == "iteration") return count(m.iteration);
  if (key == "consumed_samples") return count(m.consumed_samples);
  if (key == "global_batch_size") return count(m.global_batch_size);
  if (key == "skipped_iterations") return count(m.skipped);
  if (key == "nan_iterations") return count(m.nan);
  if (key == "loss") return m.loss;
  if (key == "lr") return m.lr;
  if (key == "grad_norm") return m.grad_norm;
  if (key == "tflops") return m.tflops;
  if (key == "elapsed_ms") return m.elapsed_ms;
  if (key == "loss_scale") return m.loss_scale;
  if (key == "step_time_s" && m.elapsed_ms) return *m.elapsed_ms / 1000;
  const auto named = m.metrics.find(key);
  if (named == m.metrics.end()) return std::nullopt;
  return named->second;
}

}  // namespace

TEST_CASE("parse file: a record wrapped over three lines -> one record at its first line") {
  const auto found = read_lines(
      {"The performance dropped.",
       "[default7]: iteration 42780/ 115311 | consumed samples: 71455664 | elapsed time per "
       "iteration (s): 105.16 | learning",
       "rate: 4.475E-05 | global batch size: 2048 | lm loss: 2.117073E+00 | grad norm: 0.150 | "
       "number of nan",
       "iterations: 0 | samples per second: 19.474 | TFLOPs: 149.10 |",
       "[default7]: iteration 42781/ 115311 | learning rate: 1.0E-05 | lm loss: 2.0E+00"});
  REQUIRE(found.size() == 2);
  CHECK(found[0].line == 2);
  const auto& m = std::get<IterationMetrics>(found[0].found);
  CHECK(m.iteration == 42780);
  CHECK(m.lr == 4.475e-05);
  CHECK(m.nan == 0);
  CHECK(m.tflops == 149.10);
  CHECK(found[1].line == 5);
}

TEST_CASE("parse file: a record without a bar at its end, then a bar -> two records") {
  const auto found = read_lines(
      {"Training epoch 0, iteration 10/999 | lr: 1.5e-05 | global_step: 10 | reduced_train_loss: "
       "11.03",
       "Epoch 0:   1%|          | 10/1000 [00:10<16:30, v_num=0, reduced_train_loss=10.10]",
       "iteration: 1 / 100 | consumed_tokens: 2.1M | lm_loss: 11 | lr: 0.0003"});
  REQUIRE(found.size() == 3);
  CHECK(std::get<IterationMetrics>(found[0].found).loss == 11.03);
  CHECK(std::get<IterationMetrics>(found[1].found).loss == 10.1);
  CHECK(std::get<IterationMetrics>(found[2].found).iteration == 1);
}

TEST_CASE("parse file: a missing file -> an error with its name") {
  const auto result = parse_file("/nonexistent/main.log", [](const FoundMetrics&) {});
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().object == "/nonexistent/main.log");
}

TEST_CASE("parse file: captured logs of the corpus -> the metrics of its index") {
  const std::string folder = std::string(STOKER_SOURCE_DIR) + "/../shared/corpus/dev/";
  std::ifstream index(folder + "index.jsonl");
  if (!index) {
    std::cout << "SKIPPED: no corpus of captured logs at " << folder << "\n";
    return;
  }
  int compared = 0;
  for (std::string text; std::getline(index, text);) {
    const auto entry = parse_json(text, "index.jsonl");
    REQUIRE(entry.has_value());
    if (!entry->contains("metrics")) continue;
    const std::string file = entry->at("file");
    std::vector<FoundMetrics> found;
    REQUIRE(parse_file(folder + file, [&](const FoundMetrics& m) { found.push_back(m); }));
    for (const auto& expected : entry->at("metrics")) {
      const auto m = parse_iteration_line(expected.at("line").get<std::string>());
      REQUIRE_MESSAGE(m, file);
      bool in_file = false;
      for (const auto& f : found) {
        const auto* seen = std::get_if<IterationMetrics>(&f.found);
        in_file |= seen != nullptr && *seen == *m;
      }
      CHECK_MESSAGE(in_file, file);
      for (const auto& [key, value] : expected.items()) {
        if (key == "line") continue;
        const std::string what = file + " " + key;
        const auto got = value_of(*m, key);
        REQUIRE_MESSAGE(got, what);
        CHECK_MESSAGE(*got == doctest::Approx(value.get<double>()), what);
        ++compared;
      }
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("parse file: a form that nobody knows -> the most frequent line templates") {
  LineTemplates templates;
  for (int i = 0; i < 5; ++i) templates.count("[rank0]: Pass " + std::to_string(i) + "  cost=0.5");
  templates.count("loaded 3 shards");
  templates.count("hello");
  const std::vector<std::string> expected{"Pass # cost=#", "loaded # shards"};
  CHECK(templates.frequent(3) == expected);
}
