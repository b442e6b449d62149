// The page is a table a section, joined from the schema's keys and their meanings.
#include "configs/schema/describe.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/schema/run_schema.hpp"
#include "configs/schema/train_schema.hpp"

namespace stoker::configs {
namespace {

constexpr const char* kSmallestRun =
    "run: hello\ntrain: {command: [stoker-train, --config, train.yaml]}\n";
constexpr const char* kSmallestTrain =
    "model: {layers: 1, hidden: 8, heads: 1, sequence: 8, vocabulary: 257}\n"
    "data: {train: [{prefix: data/text}]}\n"
    "batch: {micro: 1, global: 1}\n"
    "train: {samples: 10}\n"
    "lr: {max: 1.0e-3, decay_samples: 10}\n";

// Values that depend on others are described in words.
constexpr const char* kTold[][2] = {
    {"directory", "`<state>/runs/<run>`"},
    {"model.ffn", "4 x hidden"},
    {"train.exit_before_limit", "10min, at most a quarter of the time limit"},
};

// Maps and lists that the schema reads only where they are given: behind which key they stand.
constexpr const char* kGivenOnly[][2] = {
    {"train.finished", "train.save_signal"},
    {"alerts.sinks", "alerts.group_wait"},
    {"alerts.routes", "alerts.sinks"},
    {"alerts.quiet_hours", "alerts.routes"},
    {"alerts.escalate", "alerts.quiet_hours"},
    {"alerts.inhibit", "alerts.escalate"},
    {"alerts.digest", "alerts.inhibit"},
    {"checkpoint.save", "checkpoint.directory"},
    {"after", "checkpoints.interval_floor"},
    {"batch.ramp_up", "batch.global"},
    {"batch.steps", "batch.ramp_up"},
    {"train.curriculum", "train.recompute"},
    {"checkpoint.memory", "checkpoint.asynchronous"},
};

std::vector<SchemaKey> with_maps(std::vector<SchemaKey> keys) {
  for (const auto& [name, before] : kGivenOnly) {
    const auto at = std::find_if(keys.begin(), keys.end(),
                                 [before = before](const SchemaKey& k) { return k.key == before; });
    if (at != keys.end()) keys.insert(at + 1, SchemaKey{name, "none"});
  }
  return keys;
}

std::vector<SchemaKey> keys_of(const std::vector<EffectiveValue>& values) {
  std::vector<SchemaKey> keys;
  for (const EffectiveValue& v : values) {
    // Items of lists stand for the list: train.command.[0] is train.command.
    std::vector<std::string> path;
    bool item = false;
    for (const std::string& step : v.path) {
      if (step.starts_with("[")) {
        item = true;
        break;
      }
      path.push_back(step);
    }
    SchemaKey key{fmt::format("{}", fmt::join(path, ".")), ""};
    if (v.at.line == 0) key.fallback = item ? "list" : "`" + v.value + "`";
    for (const auto& [name, text] : kTold)
      if (key.key == name && v.at.line == 0) key.fallback = text;
    if (key.fallback == "``" || key.fallback == "`\"\"`" || key.fallback == "`null`")
      key.fallback = "none";
    const bool known =
        std::any_of(keys.begin(), keys.end(), [&](const SchemaKey& k) { return k.key == key.key; });
    if (known) {
      const auto at = std::find_if(keys.begin(), keys.end(),
                                   [&](const SchemaKey& k) { return k.key == key.key; });
      if (item && at->fallback != "" && v.at.line == 0) at->fallback += ", `" + v.value + "`";
      continue;
    }
    if (item && v.at.line == 0) key.fallback = "`" + v.value + "`";
    keys.push_back(std::move(key));
  }
  return keys;
}

std::string table(const std::vector<SchemaKey>& keys, const std::vector<KeyMeaning>& meanings) {
  std::string text, section = "?";
  for (const SchemaKey& key : keys) {
    const std::size_t dot = key.key.find('.');
    const std::string top = dot == std::string::npos ? "" : key.key.substr(0, dot);
    if (top != section) {
      section = top;
      text += top.empty() ? "\n" : "\n### " + top + "\n\n";
      text += "| key | default | unit | meaning |\n|---|---|---|---|\n";
    }
    const auto meaning = std::find_if(meanings.begin(), meanings.end(),
                                      [&](const KeyMeaning& m) { return key.key == m.key; });
    const bool known = meaning != meanings.end();
    text += fmt::format("| `{}` | {} | {} | {} |\n", key.key,
                        key.fallback.empty() ? "required" : key.fallback,
                        known ? meaning->unit : "", known ? meaning->meaning : "");
  }
  return text;
}

}  // namespace

std::vector<SchemaKey> run_schema_keys() {
  RunSchemaContext context;
  context.file = "run.yaml";
  context.config_path = "/run.yaml";
  context.state_directory = "/state";
  return with_maps(keys_of(read_run_config(kSmallestRun, context).values));
}

std::vector<SchemaKey> train_schema_keys() {
  return with_maps(keys_of(read_train_config(kSmallestTrain, "train.yaml").values));
}

std::string render_configuration() {
  return "# Configuration\n\n"
         "Generated from the schema by `./dev docs`; do not edit.\n\n"
         "Durations are written `90s`, `10min`, `20h`, `7d`; sizes `512MiB`; shares `5%`. Unknown "
         "and duplicate keys are errors with\nthe nearest name; every error has `file:line:col`, "
         "and all of them are reported at once. `stoker check --effective RUN.yaml` prints\nthe "
         "full "
         "configuration with where each value came from. Paths: relative ones count from "
         "RUN.yaml's folder; the training's\nworking directory is the run directory, and "
         "TRAIN.yaml's paths count from there, as does "
         "`checkpoints.directory`.\nValues that this version cannot honour are "
         "refused, never ignored.\n\n"
         "## RUN.yaml\n" +
         table(run_schema_keys(), run_key_meanings()) + "\n## TRAIN.yaml\n" +
         table(train_schema_keys(), train_key_meanings());
}

}  // namespace stoker::configs
