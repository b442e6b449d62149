// TRAIN.yaml: the contract's example, the defaults, and each refusal with its position.
#include "configs/schema/train_schema.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::configs;
using namespace stoker::recipe;

namespace {

const char* const kFull =
    R"(model: {layers: 12, hidden: 768, heads: 12, ffn: 3072, sequence: 1024, vocabulary: 50257, dropout: 0.1, position: learned}
data: {train: [{prefix: data/oscar, weight: 1.0}], split: [969, 30, 1], seed: 1234}
batch: {micro: 4, global: 512,
         ramp_up: {start: 32, increment: 32, samples: 2000000}}
parallel: {tensor: 1, pipeline: 1, schedule: 1f1b, virtual_stages: 1, zero: 0}
train: {samples: 300000000, dtype: bf16, recompute: none, clip: 1.0, seed: 42}
optimizer: {kind: adamw, beta1: 0.9, beta2: 0.95, eps: 1.0e-8, weight_decay: 0.1}
lr: {max: 6.0e-4, min: 6.0e-5, warmup_samples: 216320, decay_samples: 126953125, style: cosine}
checkpoint:
  directory: checkpoints
  save: [{until: 100, every: 10}, {until: 1000, every: 18}, {every: 1500}]
  asynchronous: true
  samples_log: samples.log
evaluate: {every: 1000, iterations: 10, save_before: true}
log: {every: 1, tensorboard: tensorboard}
exit: {duration: null, iteration: null, samples: null}
)";

std::string small_with(const std::string& batch, const std::string& more = "") {
  return "model: {layers: 1, hidden: 8, heads: 2, sequence: 16, vocabulary: 257}\n"
         "data: {train: [{prefix: d}]}\n"
         "batch: " +
         batch +
         "\n"
         "train: {samples: 1000}\n"
         "lr: {max: 1.0e-3, decay_samples: 1000}\n" +
         more;
}

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> out;
  for (const Diagnostic& d : read_train_config(text, "train.yaml").errors) out.push_back(d.text());
  return out;
}

}  // namespace

TEST_CASE("train schema: the contract's example -> every value") {
  const TrainConfigFile file = read_train_config(kFull, "train.yaml");
  for (const Diagnostic& d : file.errors) FAIL_CHECK(d.text());
  const TrainConfig& c = file.config;
  CHECK(c.model.hidden == 768);
  CHECK(c.data.train.at(0).prefix == "data/oscar");
  CHECK(c.batch.ramp_up->samples == 2'000'000);
  CHECK(c.batch.micro.at(0).micro == 4);
  CHECK(c.train.dtype == Dtype::Bf16);
  CHECK(c.lr.max == 6e-4);
  CHECK(c.checkpoint.save.size() == 3);
  CHECK(c.checkpoint.save[1].until == 1000);
  CHECK(c.checkpoint.asynchronous);
  CHECK(c.evaluate.every == 1000);
  CHECK(c.log.tensorboard == std::optional<std::string>("tensorboard"));
  CHECK_FALSE(c.exit.duration.has_value());
  CHECK(file.batch_at == Position{4, 19});
  CHECK(read_train_config(file.effective, "again").errors.empty());
}

TEST_CASE("train schema: the smallest file -> the defaults") {
  const TrainConfigFile file = read_train_config(
      small_with("{micro: [{until_samples: 100, micro: 1}, {micro: 2}], global: 8}"), "train.yaml");
  for (const Diagnostic& d : file.errors) FAIL_CHECK(d.text());
  CHECK(file.config.model.ffn == 32);
  CHECK(file.config.batch.micro.size() == 2);
  CHECK(file.config.parallel.zero == 0);
  CHECK(file.config.data.split == std::vector<double>{969, 30, 1});
  CHECK(file.effective.find("dtype: f32") != std::string::npos);
}

TEST_CASE("train schema: a mesh with chunks and ZeRO -> accepted") {
  std::string text = small_with(
      "{micro: 1, global: 8}",
      "parallel: {tensor: 2, pipeline: 4, schedule: interleaved, virtual_stages: 2, zero: 1}\n");
  text.replace(text.find("layers: 1"), 9, "layers: 8");
  const TrainConfigFile file = read_train_config(text, "train.yaml");
  CHECK(file.errors.empty());
  CHECK(file.config.parallel.pipeline == 4);
  CHECK(file.config.parallel.zero == 1);
}

TEST_CASE("train schema: recomputation -> none, selective, full, or layers in stretches") {
  const auto with = [](const std::string& value) {
    std::string text = small_with("{micro: 1, global: 8}");
    text.replace(text.find("samples: 1000}"), 14, "samples: 1000, recompute: " + value + "}");
    return read_train_config(text, "train.yaml");
  };
  CHECK(with("selective").config.train.recompute == Recompute::Selective);
  CHECK(with("full").config.train.recompute_every == 1);
  const auto every = with("{every: 4}");
  CHECK(every.errors.empty());
  CHECK(every.config.train.recompute == Recompute::Full);
  CHECK(every.config.train.recompute_every == 4);
  CHECK(with("{every: 0}").errors.at(0).text().find("every: must be between 1 and") !=
        std::string::npos);
  CHECK(with("{}").errors.at(0).text().find("every") != std::string::npos);
  CHECK(with("some").errors.at(0).text().find("expected one of none, selective, full") !=
        std::string::npos);
}

TEST_CASE("train schema: a curriculum -> read, up to the model's sequence; mistakes by position") {
  const auto with = [](const std::string& value) {
    std::string text = small_with("{micro: 1, global: 8}");
    text.replace(text.find("samples: 1000}"), 14, "samples: 1000, curriculum: " + value + "}");
    return read_train_config(text, "train.yaml");
  };
  const auto one = [&](const std::string& value) {
    const auto file = with(value);
    return file.errors.size() == 1 ? file.errors[0].text() : "";
  };
  CHECK_FALSE(with("null").config.train.curriculum);
  const auto good = with("{min: 4, total: 30, step: 4}");
  CHECK(good.errors.empty());
  CHECK(good.config.train.curriculum->max == 16);
  CHECK(good.config.train.curriculum->total == 30);
  CHECK(read_train_config(good.effective, "again").errors.empty());
  CHECK(with("{kind: fixed_linear, min: 8, max: 8, total: 1}").errors.empty());
  CHECK(one("{min: 4, total: 30}") ==
        "train.yaml:4:42: error: min: 4 is not a multiple of step 8 above 0");
  CHECK(one("{min: 4, max: 32, total: 9, step: 4}") ==
        "train.yaml:4:50: error: max: 32 is above the model's sequence 16");
  CHECK(one("{min: 5, total: 9, step: 5}") ==
        "train.yaml:4:36: error: max: 16 is not a multiple of step 5");
  CHECK(one("{min: 8, total: 0}") ==
        "train.yaml:4:52: error: total: must be between 1 and 1000000000000000");
  CHECK(one("{kind: linear, min: 8, total: 9}").find("fixed_linear") != std::string::npos);
  CHECK(one("{min: 8, totl: 9, total: 9}").find("did you mean \"total\"?") != std::string::npos);
  CHECK(one("{min: 8}").find("total") != std::string::npos);
  CHECK(one("fixed_linear").find("train.yaml:4:36: error: ") == 0);
}

TEST_CASE("train schema: a mesh that no number of nodes makes good -> the key is named") {
  const auto one = [](const std::string& more) {
    const std::string text = small_with("{micro: 1, global: 8}", more);
    const auto file = read_train_config(text, "train.yaml");
    return file.errors.size() == 1 ? file.errors[0].text() : "";
  };
  CHECK(one("parallel: {tensor: 4}\n") ==
        "train.yaml:6:20: error: tensor: 2 heads are not a multiple of tensor 4");
  CHECK(one("parallel: {pipeline: 4}\n")
            .find("6:22: error: pipeline: 1 layers do not split over 4") != std::string::npos);
  CHECK(
      one("parallel: {schedule: interleaved}\n").find("6:22: error: virtual_stages: interleaved") !=
      std::string::npos);
  CHECK(one("parallel: {schedule: csv}\n").find("expected gpipe, 1f1b") != std::string::npos);
  CHECK(one("parallel: {schedule: zb}\n").find("expected gpipe, 1f1b") != std::string::npos);
  CHECK(one("parallel: {tensor: 2, sequence: true}\n") == "");
  CHECK(one("parallel: {sequence: maybe}\n").find("6:22: error: ") != std::string::npos);
  std::string odd = small_with("{micro: 1, global: 8}", "parallel: {tensor: 2, sequence: true}\n");
  odd.replace(odd.find("sequence: 16"), 12, "sequence: 15");
  CHECK(errors_of(odd) ==
        std::vector<std::string>{"train.yaml:6:33: error: sequence: the model's sequence 15 is not "
                                 "a multiple of tensor 2"});
  std::string lengths =
      small_with("{micro: 1, global: 8}", "parallel: {tensor: 2, sequence: true}\n");
  lengths.replace(lengths.find("samples: 1000}"), 14,
                  "samples: 1000, curriculum: {min: 1, total: 9, step: 1}}");
  CHECK(errors_of(lengths).at(0).find("train.yaml:4:61: error: step: with parallel.sequence") == 0);
  CHECK(one("parallel: {zero: 2}\n").find("zero: must be 0 or 1") != std::string::npos);
  CHECK(one("parallel: {tensor: 0}\n").find("tensor: must be between 1 and") != std::string::npos);
}

TEST_CASE("train schema: batches that fit no number of ranks -> the first bad step is named") {
  CHECK(errors_of(small_with("{micro: 3, global: 8}")) ==
        std::vector<std::string>{
            "train.yaml:3:27: error: batch: global batch 8 at iteration 1 (0 consumed samples) is "
            "not a multiple of micro-batch 3; no node count fits"});
  CHECK(errors_of(small_with("{micro: 4, global: 24, ramp_up: {start: 4, increment: 10, samples: "
                             "100}}"))
            .at(0)
            .find("global batch 14 at iteration") != std::string::npos);
  CHECK(errors_of(small_with("{micro: 1, global: 8, ramp_up: {start: 3, increment: 2, samples: "
                             "100}}"))
            .at(0)
            .find("never meets the global batch 8") != std::string::npos);
  CHECK(errors_of(small_with("{micro: 1, global: 8, ramp_up: {start: 4, increment: 4, samples: 9}, "
                             "steps: '0:8'}"))
            .at(0)
            .find("exclude each other") != std::string::npos);
  CHECK(
      errors_of(small_with("{micro: 1, global: 2000}")).at(0).find("less than one global batch") !=
      std::string::npos);
}

TEST_CASE("train schema: many mistakes -> all at once") {
  const auto errors = errors_of(
      "model: {layers: 0, hidden: 10, heads: 3, sequence: 16, vocabulary: 257, dropuot: 0.1}\n"
      "data: {train: [], split: [1]}\n"
      "batch: {micro: 1, global: 8}\n"
      "train: {samples: 1000, dtype: fp8}\n"
      "lr: {max: 1.0e-5, min: 1.0e-3, decay_samples: 10}\n"
      "checkpoint: {save: [{every: 0}]}\n");
  REQUIRE(errors.size() == 8);
  CHECK(errors[0].find("train.yaml:1:17: error: layers: must be between") == 0);
  CHECK(errors[1].find("hidden 10 is not a multiple of 3 heads") != std::string::npos);
  CHECK(errors[2].find("did you mean \"dropout\"?") != std::string::npos);
  CHECK(errors[3].find("at least one data set") != std::string::npos);
  CHECK(errors[4].find("expected three weights") != std::string::npos);
  CHECK(errors[5].find("expected one of f64, f32, bf16") != std::string::npos);
  CHECK(errors[6].find("train.yaml:5:24: error: lr: min is above max") == 0);
  CHECK(errors[7].find("save: round 1: every must be at least 1") != std::string::npos);
}

TEST_CASE("train schema: required sections missing -> each named") {
  const auto errors = errors_of("log: {every: 1}\n");
  REQUIRE(errors.size() == 5);
  CHECK(errors[0].find("\"model\" is missing") != std::string::npos);
}
