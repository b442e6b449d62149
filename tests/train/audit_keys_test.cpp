// Every key of TRAIN.yaml against the resume audit: a key that changes the function computed is
// refused, one that changes the order of additions takes "bitwise" away, and of the rest it is said
// here why they change nothing. A new key fails this test until it is in the table.
#include <doctest/doctest.h>
#include <map>
#include <set>

#include "configs/schema/describe.hpp"
#include "configs/schema/train_schema.hpp"
#include "recipe/batch_plan.hpp"
#include "recipe/sequence_plan.hpp"
#include "tests/folder.hpp"
#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/data/training_data.hpp"
#include "worker/train/loop/pipeline.hpp"
#include "worker/train/run/rank_numerics.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

enum class Effect {
  Refused,    // another function, or other data
  Tolerance,  // the same function, added in another order
  Nothing,    // only how long, how often, where; or an initial value; or the same bits
};

using Values = std::map<std::string, std::string>;  // "model.layers" -> as in the file

Values base_values(const stoker::testing::Folder& folder) {
  return {{"model.layers", "4"},
          {"model.hidden", "32"},
          {"model.heads", "4"},
          {"model.ffn", "64"},
          {"model.sequence", "8"},
          {"model.vocabulary", "257"},
          {"data.train", "[{prefix: " + folder.path + "/a}]"},
          {"data.split", "[1, 0, 0]"},
          {"data.cache", folder.path + "/cache"},
          {"batch.micro", "1"},
          {"batch.global", "8"},
          {"parallel.tensor", "2"},
          {"parallel.pipeline", "2"},
          {"train.samples", "400"},
          {"lr.max", "1.0e-3"},
          {"lr.min", "1.0e-4"},
          {"lr.warmup_samples", "40"},
          {"lr.decay_samples", "300"}};
}

struct Change {
  const char* key;
  std::string value;
  Effect effect;
  Values with = {};  // what this value needs beside it
};

// NOLINTNEXTLINE(readability-function-size): a table
std::vector<Change> changes_of(const stoker::testing::Folder& folder) {
  return {
      {"model.layers", "6", Effect::Refused},
      {"model.hidden", "64", Effect::Refused},
      {"model.heads", "8", Effect::Refused},
      {"model.ffn", "80", Effect::Refused},
      {"model.sequence", "16", Effect::Refused},
      {"model.vocabulary", "300", Effect::Refused},
      {"model.dropout", "0.2", Effect::Refused},
      {"model.position", "learned", Effect::Nothing},  // the only one
      {"model.init_std", "0.03", Effect::Nothing},     // the checkpoint holds the weights
      {"data.train", "[{prefix: " + folder.path + "/b}]", Effect::Refused},
      {"data.train.prefix", folder.path + "/b", Effect::Refused},
      {"data.train.weight", "2", Effect::Refused},
      {"data.split", "[1, 1, 0]", Effect::Refused},
      {"data.seed", "99", Effect::Refused},
      {"data.last_epoch_threshold", "0.95", Effect::Refused},
      {"data.cache", folder.path + "/elsewhere", Effect::Nothing},
      {"batch.micro", "2", Effect::Tolerance},
      {"batch.global", "16", Effect::Refused},
      {"batch.ramp_up", "{start: 4, increment: 4, samples: 80}", Effect::Refused},
      {"batch.steps", "0:4 300:8", Effect::Refused},
      {"parallel.tensor", "1", Effect::Tolerance},
      {"parallel.pipeline", "1", Effect::Tolerance},
      {"parallel.schedule", "zb-v", Effect::Tolerance},
      {"parallel.virtual_stages", "2", Effect::Tolerance, {{"parallel.schedule", "interleaved"}}},
      {"parallel.sequence", "true", Effect::Tolerance},
      {"parallel.zero", "1", Effect::Nothing},
      {"train.samples", "420", Effect::Refused},  // the order of the data follows it
      {"train.dtype", "bf16", Effect::Refused},
      {"train.device", "cuda", Effect::Tolerance},
      {"train.numerics", "portable", Effect::Tolerance},
      {"train.recompute", "{every: 2}", Effect::Nothing},
      {"train.curriculum", "{min: 2, total: 60, step: 2}", Effect::Refused},
      {"train.curriculum", "{min: 2, total: 10, step: 2}", Effect::Refused},  // over by then
      {"train.clip", "0.5", Effect::Refused},
      {"train.seed", "43", Effect::Refused},
      {"train.threads", "2", Effect::Tolerance},
      {"train.deadline", "9s", Effect::Nothing},
      {"optimizer.kind", "adamw", Effect::Nothing},  // the only one
      {"optimizer.beta1", "0.8", Effect::Refused},
      {"optimizer.beta2", "0.99", Effect::Refused},
      {"optimizer.eps", "1.0e-6", Effect::Refused},
      {"optimizer.weight_decay", "0.2", Effect::Refused},
      {"lr.max", "2.0e-3", Effect::Refused},
      {"lr.min", "2.0e-4", Effect::Refused},
      {"lr.initial", "1.0e-5", Effect::Refused},
      {"lr.warmup_samples", "50", Effect::Refused},
      {"lr.style", "linear", Effect::Refused},
      {"lr.decay_samples", "3000", Effect::Refused},
      {"lr.wsd_decay_samples", "20", Effect::Refused},
      {"checkpoint.directory", "other", Effect::Nothing},
      {"checkpoint.save", "[{every: 3}]", Effect::Nothing},
      {"checkpoint.asynchronous", "true", Effect::Nothing},
      {"checkpoint.memory", "{every: 4}", Effect::Nothing},
      {"checkpoint.samples_log", "other.log", Effect::Nothing},
      {"evaluate.every", "7", Effect::Nothing},  // without dropout, and reads no generator
      {"evaluate.iterations", "3", Effect::Nothing},
      {"evaluate.save_before", "true", Effect::Nothing},
      {"check.replicas_every", "7", Effect::Nothing},
      {"check.on_drift", "repair", Effect::Nothing},  // good copies are what they were
      {"check.replay_every", "5", Effect::Nothing},   // computes, and changes nothing
      {"log.every", "3", Effect::Nothing},
      {"log.norms", "true", Effect::Nothing},
      {"log.tensorboard", "points", Effect::Nothing},
      {"exit.duration", "1h", Effect::Nothing},
      {"exit.iteration", "30", Effect::Nothing},
      {"exit.samples", "300", Effect::Nothing},
  };
}

std::string text_of(const Values& values) {
  std::map<std::string, std::string> sections;
  for (const auto& [key, value] : values) {
    const auto dot = key.find('.');
    std::string& section = sections[key.substr(0, dot)];
    section += (section.empty() ? "" : ", ") + key.substr(dot + 1) + ": " + value;
  }
  std::string text;
  for (const auto& [name, content] : sections) text += name + ": {" + content + "}\n";
  return text;
}

// What a start of one replica finds: as the session does it, with what the backend would report.
AuditFacts facts_of(const Values& values) {
  const auto file = configs::read_train_config(text_of(values), "train.yaml");
  for (const auto& error : file.errors) FAIL_CHECK(error.text());
  const recipe::TrainConfig& c = file.config;
  const auto data = TrainingData::open(
      {c.data, c.model.sequence, c.model.vocabulary, c.train.samples, Split::Train});
  REQUIRE_MESSAGE(data, data.error().message());
  const Mesh mesh{c.parallel.tensor, c.parallel.pipeline, 2};
  std::map<std::string, std::string> library{{"threads", std::to_string(c.train.threads)}};
  if (c.train.device == recipe::DeviceKind::Cuda) library["device"] = name_of(c.train.device);
  return {c, data->digest(), mesh, own_numerics(library, c.train.numerics),
          Pipeline::open(c).value().order()};
}

struct Seen {
  bool passed;
  std::string guarantee;
};

Seen audit(const AuditFacts& before, const AuditFacts& now) {
  Position position;
  position.iteration = Iteration(20);
  const auto batches = recipe::BatchPlan::make(before.config.batch).value();
  position.consumed_samples = batches.consumed_after(position.iteration);
  position.consumed_tokens =
      recipe::tokens_after(before.config, batches, position.iteration, position.consumed_samples);
  wire::Manifest m;
  m.iteration = position.iteration;
  m.consumed_samples = position.consumed_samples;
  m.consumed_tokens = position.consumed_tokens;
  m.learning_rate = learning_rate_at(before.config, position);
  m.numerics = before.numerics;
  m.mesh = {{"tp", before.mesh.tp}, {"pp", before.mesh.pp}, {"dp", before.mesh.dp}};
  m.training = training_facts(before, position);
  const auto found = audit_resume("c", m, position, now, {});
  return {found.passed, found.guarantee};
}

void write_set(const std::string& prefix) {
  auto writer = IndexedDatasetWriter::create(prefix, TokenType::U16).value();
  for (TokenId document = 0; document < 40; ++document) {
    const std::vector<TokenId> tokens(static_cast<std::size_t>(20 + document), document);
    REQUIRE(writer.add(tokens));
    REQUIRE(writer.end_document());
  }
  REQUIRE(writer.commit());
}

Values with_change(Values values, const Change& change, const stoker::testing::Folder& folder) {
  for (const auto& [key, value] : change.with) values[key] = value;
  const std::string key = change.key;
  if (key == "data.train.prefix") {
    values["data.train"] = "[{prefix: " + change.value + "}]";
  } else if (key == "data.train.weight") {
    values["data.train"] = "[{prefix: " + folder.path + "/a, weight: " + change.value + "}]";
  } else {
    values[key] = change.value;
  }
  return values;
}

}  // namespace

TEST_CASE("resume audit: each key of TRAIN.yaml changed -> refused, not bitwise, or no matter") {
  const stoker::testing::Folder folder;
  write_set(folder / "a");
  write_set(folder / "b");
  const Values base = base_values(folder);
  std::set<std::string> listed;
  for (const Change& change : changes_of(folder)) {
    INFO(change.key, ": ", change.value);
    listed.insert(change.key);
    Values before = base;
    for (const auto& [key, value] : change.with) before[key] = value;
    if (!change.with.empty()) before["parallel.virtual_stages"] = "4", before["model.layers"] = "8";
    if (!change.with.empty()) before["batch.global"] = "16";
    const Seen seen = audit(facts_of(before), facts_of(with_change(before, change, folder)));
    CHECK(seen.passed == (change.effect != Effect::Refused));
    if (change.effect == Effect::Tolerance)
      CHECK_MESSAGE(seen.guarantee.starts_with("tolerance"), seen.guarantee);
    if (change.effect == Effect::Nothing) CHECK(seen.guarantee == "bitwise");
  }
  for (const auto& meaning : configs::train_key_meanings())
    CHECK_MESSAGE(listed.contains(meaning.key), meaning.key);
}
