// One function a section; each reads, then checks ranges at the value's own position.
#include "configs/schema/train_schema.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/os/files.hpp"
#include "recipe/pipeline_plan.hpp"

namespace stoker::configs {
namespace {

using namespace recipe;

constexpr std::uint64_t kMaxDimension =
    1u << 24;  // layers, hidden, sequence ...: beyond it products overflow
constexpr std::uint64_t kMaxSamples = 1'000'000'000'000'000;

void require_dimension(MapReader& m, std::string_view key, std::uint64_t& value) {
  if (m.require(key, value) && m.has(key))
    m.check(key, value >= 1 && value <= kMaxDimension,
            fmt::format("must be between 1 and {}", kMaxDimension));
}

void read_model(MapReader& m, ModelConfig& c) {
  require_dimension(m, "layers", c.layers);
  require_dimension(m, "hidden", c.hidden);
  require_dimension(m, "heads", c.heads);
  require_dimension(m, "sequence", c.sequence);
  require_dimension(m, "vocabulary", c.vocabulary);
  c.ffn = 4 * c.hidden;
  m.read("ffn", c.ffn);
  if (m.has("ffn"))
    m.check("ffn", c.ffn >= 1 && c.ffn <= kMaxDimension,
            fmt::format("must be between 1 and {}", kMaxDimension));
  if (c.heads > 0 && c.hidden > 0)
    m.check("heads", c.hidden % c.heads == 0,
            fmt::format("hidden {} is not a multiple of {} heads", c.hidden, c.heads));
  m.read("dropout", c.dropout);
  m.check("dropout", c.dropout >= 0 && c.dropout < 1, "must be at least 0 and below 1");
  m.read("position", c.position);
  m.read("init_std", c.init_std);
  m.check("init_std", c.init_std > 0 && c.init_std < 10, "must be above 0 and below 10");
}

void read_data(MapReader& m, DataConfig& c) {
  if (!m.required("train").given()) m.at("train");
  const std::size_t sources = m.list("train", [&](ValueReader& item) {
    DataSource source;
    item.map([&](MapReader& s) {
      s.require("prefix", source.prefix);
      if (s.has("prefix")) s.check("prefix", !source.prefix.empty(), "must not be empty");
      s.read("weight", source.weight);
      s.check("weight", source.weight > 0, "must be above 0");
    });
    c.train.push_back(std::move(source));
  });
  if (m.at("train").shape() == Shape::Sequence) {
    m.check("train", sources > 0, "needs at least one data set");
    m.check("train", sources < 255, "at most 254 data sets can be blended");
  }
  m.read("split", c.split);
  double sum = 0;
  bool negative = false;
  for (const double share : c.split) {
    sum += share;
    negative = negative || share < 0;
  }
  m.check("split", c.split.size() == 3 && !negative && sum > 0 && c.split[0] > 0,
          "expected three weights for training, validation and test, like [969, 30, 1]; the first "
          "above 0");
  m.read("seed", c.seed);
  m.read("last_epoch_threshold", c.last_epoch_threshold);
  m.check("last_epoch_threshold", c.last_epoch_threshold >= 0 && c.last_epoch_threshold <= 1,
          "must be between 0 and 1; 0.80 is Megatron's, 0.95 Megatron-DeepSpeed's");
  m.read("cache", c.cache);
  m.check("cache", !c.cache.empty(), "must not be empty");
}

void read_micro(const ValueReader& value, BatchConfig& c) {
  if (value.shape() != Shape::Sequence) {
    value.read(c.micro[0].micro);
    return;
  }
  c.micro.clear();
  value.list([&](ValueReader& item) {
    MicroStep step;
    item.map([&](MapReader& m) {
      m.read("until_samples", step.until_samples);
      m.require("micro", step.micro);
    });
    c.micro.push_back(step);
  });
}

void read_batch(MapReader& m, BatchConfig& c) {
  read_micro(m.required("micro"), c);
  m.require("global", c.global);
  m.one_of({"ramp_up", "steps"}, false);
  const ValueReader ramp = m.at("ramp_up");
  if (ramp.shape() == Shape::Map) c.ramp_up.emplace();
  if (ramp.given() && ramp.shape() != Shape::Null)
    ramp.map([&](MapReader& r) {
      RampUp unused;
      RampUp& target = c.ramp_up ? *c.ramp_up : unused;
      r.require("start", target.start);
      r.require("increment", target.increment);
      r.require("samples", target.samples);
    });
  const ValueReader steps = m.at("steps");
  std::string text;
  if (steps.given() && steps.read(text)) {
    auto parsed = parse_batch_steps(text);
    if (parsed)
      c.steps = *std::move(parsed);
    else
      steps.error("steps: " + parsed.error().what);
  }
}

// One of the schedules by name, or a CSV file.
void read_schedule(const ValueReader& value, ParallelConfig& c) {
  std::string name(name_of(c.schedule));
  if (!value.read(name)) return;
  const auto kind = enum_from<ScheduleKind>(name);
  if (name.ends_with(".csv")) {
    c.schedule = ScheduleKind::Csv;
    c.schedule_file = name;
  } else if (kind && *kind != ScheduleKind::Csv) {
    c.schedule = *kind;
  } else {
    value.error("schedule: expected gpipe, 1f1b, interleaved, zb-h1, zb-v or a file FILE.csv");
  }
}

void read_parallel(MapReader& m, ParallelConfig& c) {
  m.read("tensor", c.tensor);
  m.read("pipeline", c.pipeline);
  read_schedule(m.at("schedule"), c);
  m.read("virtual_stages", c.virtual_stages);
  m.read("sequence", c.sequence);
  m.read("zero", c.zero);
  m.check("zero", c.zero <= 1, "must be 0 or 1");
}

void read_recompute(const ValueReader& value, TrainLoopConfig& c) {
  if (value.shape() != Shape::Map) {
    value.read(c.recompute);
    return;
  }
  c.recompute = Recompute::Full;
  value.map([&](MapReader& m) {
    if (m.require("every", c.recompute_every) && m.has("every"))
      m.check("every", c.recompute_every >= 1 && c.recompute_every <= kMaxDimension,
              fmt::format("must be between 1 and {}", kMaxDimension));
  });
}

void read_curriculum(const ValueReader& value, std::uint64_t sequence, TrainLoopConfig& c) {
  if (!value.given() || value.shape() == Shape::Null) return;
  Curriculum curriculum;
  curriculum.max = sequence;
  value.map([&](MapReader& m) {
    m.read("kind", curriculum.kind);
    bool whole = m.require("min", curriculum.min) && m.has("min");
    whole = m.read("max", curriculum.max) && whole;
    whole = m.require("total", curriculum.total) && m.has("total") && whole;
    whole = m.read("step", curriculum.step) && whole;
    if (!whole || sequence == 0) return;
    if (const Status good = check_curriculum(curriculum, sequence); !good)
      m.check(good.error().object, false, good.error().what);
  });
  c.curriculum = curriculum;
}

void read_train(MapReader& m, TrainLoopConfig& c, std::uint64_t sequence) {
  if (m.require("samples", c.samples) && m.has("samples"))
    m.check("samples", c.samples >= 1 && c.samples <= kMaxSamples,
            fmt::format("must be between 1 and {}", kMaxSamples));
  m.read("dtype", c.dtype);
  m.read("device", c.device);
  const bool gpu = c.device == DeviceKind::Cuda;
  m.check("device", !gpu || c.dtype != Dtype::F64, "f64 is for the CPU; the GPU has f32 and bf16");
  m.read("numerics", c.numerics);
  m.check("numerics", !gpu || c.numerics == Numerics::Native,
          "portable is for the CPU; between GPUs of one kind the bits are equal anyway");
  read_recompute(m.at("recompute"), c);
  read_curriculum(m.at("curriculum"), sequence, c);
  m.read("clip", c.clip);
  m.check("clip", c.clip >= 0, "must not be negative; 0 turns clipping off");
  m.read("seed", c.seed);
  m.read("threads", c.threads);
  m.check("threads", c.threads >= 1 && c.threads <= 1024, "must be between 1 and 1024");
  m.read("deadline", c.deadline);
  m.check("deadline", c.deadline >= 1s, "must be at least 1s");
}

void read_optimizer(MapReader& m, OptimizerConfig& c) {
  m.read("kind", c.kind);
  m.read("beta1", c.beta1);
  m.check("beta1", c.beta1 >= 0 && c.beta1 < 1, "must be at least 0 and below 1");
  m.read("beta2", c.beta2);
  m.check("beta2", c.beta2 >= 0 && c.beta2 < 1, "must be at least 0 and below 1");
  m.read("eps", c.eps);
  m.check("eps", c.eps > 0, "must be above 0");
  m.read("weight_decay", c.weight_decay);
  m.check("weight_decay", c.weight_decay >= 0, "must not be negative");
}

void read_lr(MapReader& m, LrSchedule& c) {
  const bool read = m.require("max", c.max) && m.has("max");
  m.read("min", c.min);
  m.read("initial", c.initial);
  m.read("warmup_samples", c.warmup_samples);
  m.read("style", c.style);
  const bool decays = c.style != LrStyle::Constant && c.style != LrStyle::InverseSquareRoot;
  if (decays)
    m.require("decay_samples", c.decay_samples);
  else
    m.read("decay_samples", c.decay_samples);
  m.read("wsd_decay_samples", c.wsd_decay_samples);
  if (!read || (decays && !m.has("decay_samples"))) return;
  if (const Status checked = check_lr(c); !checked) {
    const std::string what = checked.error().what;
    m.at(what.substr(0, what.find(' '))).error("lr: " + what);
  }
}

void read_checkpoint(MapReader& m, CheckpointConfig& c) {
  m.read("directory", c.directory);
  m.check("directory", !c.directory.empty(), "must not be empty");
  const ValueReader save = m.at("save");
  if (save.given()) {
    c.save.clear();
    save.list([&](ValueReader& item) {
      SaveRound round;
      item.map([&](MapReader& r) {
        r.read("until", round.until);
        r.require("every", round.every);
      });
      c.save.push_back(round);
    });
    if (const Status checked = check_save_rounds(c.save); !checked)
      save.error("save: " + checked.error().what);
  }
  m.read("asynchronous", c.asynchronous);
  const ValueReader memory = m.at("memory");
  if (memory.given() && memory.shape() != Shape::Null)
    memory.map([&](MapReader& r) {
      if (r.require("every", c.memory_every) && r.has("every"))
        r.check("every", c.memory_every >= 1, "must be at least 1");
    });
  m.read("samples_log", c.samples_log);
}

void read_rest(MapReader& root, TrainConfig& c) {
  root.map("evaluate", [&](MapReader& m) {
    m.read("every", c.evaluate.every);
    m.read("iterations", c.evaluate.iterations);
    m.check("iterations", c.evaluate.iterations >= 1, "must be at least 1");
    m.read("save_before", c.evaluate.save_before);
  });
  root.map("check", [&](MapReader& m) {
    m.read("replicas_every", c.check.replicas_every);
    m.read("on_drift", c.check.on_drift);
    m.read("replay_every", c.check.replay_every);
  });
  root.map("log", [&](MapReader& m) {
    m.read("every", c.log.every);
    m.check("every", c.log.every >= 1, "must be at least 1");
    m.read("norms", c.log.norms);
    m.read("tensorboard", c.log.tensorboard);
  });
  root.map("exit", [&](MapReader& m) {
    m.read("duration", c.exit.duration);
    m.read("iteration", c.exit.iteration);
    m.read("samples", c.exit.samples);
  });
}

// A missing section is one error, not one for each of its keys.
void required_section(MapReader& root, std::string_view key,
                      const std::function<void(MapReader&)>& schema) {
  if (const ValueReader section = root.required(key); section.given()) section.map(schema);
}

// Reported at the ramp-up where there is one: a batch that not even one rank could cut into
// micro-batches.
void check_batches(MapReader& root, const TrainConfig& c) {
  root.map("batch", [&](MapReader& m) {
    for (const char* key : {"micro", "global", "ramp_up", "steps"}) m.at(key);
    if (!m.has("micro") || !m.has("global")) return;
    const char* where = m.has("ramp_up") ? "ramp_up" : "global";
    const auto plan = BatchPlan::make(c.batch);
    if (!plan) {
      m.at(where).error("batch: " + plan.error().what);
    } else if (const auto bad = plan->first_illegal(1, 0, c.train.samples)) {
      m.at(where).error(
          fmt::format("batch: global batch {} at iteration {} ({} consumed samples) is not a "
                      "multiple of micro-batch {}; no node count fits",
                      bad->phase.global, bad->phase.first_iteration + 1, bad->phase.consumed,
                      bad->phase.micro));
    } else if (plan->train_iterations(c.train.samples) == 0) {
      m.at("global").error("batch: train.samples is less than one global batch");
    }
  });
}

// The first of these keys that the file gives.
Position given_at(const YamlReader& reader, const std::vector<std::vector<std::string>>& keys) {
  Position at;
  for (const auto& key : keys)
    if (at.line == 0) at = reader.position_of(key);
  return at;
}

// The mesh against the model; reported at the key that is to blame.
void check_mesh_of(YamlReader& reader, const TrainConfig& c) {
  const auto& curriculum = c.train.curriculum;
  if (c.parallel.sequence && curriculum && curriculum->step % std::max(1u, c.parallel.tensor) != 0)
    reader.error(given_at(reader, {{"train", "curriculum", "step"}, {"parallel", "sequence"}}),
                 fmt::format("step: with parallel.sequence each length is split: {} is not a "
                             "multiple of tensor {}",
                             curriculum->step, c.parallel.tensor));
  const Status fits = check_parallel(c.parallel, c.model);
  if (fits) return;
  const std::string& key = fits.error().object;
  reader.error(given_at(reader, {{"parallel", key},
                                 {"parallel", "schedule"},
                                 {"parallel", "pipeline"},
                                 {"parallel", "tensor"}}),
               key + ": " + fits.error().what);
}

}  // namespace

TrainConfigFile read_train_config(std::string_view text, const std::string& file) {
  TrainConfigFile result;
  TrainConfig& c = result.config;
  YamlReader reader(text, file);
  reader.root([&](MapReader& root) {
    required_section(root, "model", [&](MapReader& m) { read_model(m, c.model); });
    required_section(root, "data", [&](MapReader& m) { read_data(m, c.data); });
    required_section(root, "batch", [&](MapReader& m) { read_batch(m, c.batch); });
    root.map("parallel", [&](MapReader& m) { read_parallel(m, c.parallel); });
    required_section(root, "train",
                     [&](MapReader& m) { read_train(m, c.train, c.model.sequence); });
    root.map("optimizer", [&](MapReader& m) { read_optimizer(m, c.optimizer); });
    required_section(root, "lr", [&](MapReader& m) { read_lr(m, c.lr); });
    root.map("checkpoint", [&](MapReader& m) { read_checkpoint(m, c.checkpoint); });
    read_rest(root, c);
    if (reader.ok()) check_batches(root, c);
  });
  if (reader.ok()) check_mesh_of(reader, c);
  result.errors = reader.errors();
  result.effective = reader.render_effective();
  result.values = reader.effective();
  result.batch_at = reader.position_of({"batch", "ramp_up"});
  if (result.batch_at.line == 0) result.batch_at = reader.position_of({"batch", "global"});
  return result;
}

Result<TrainConfigFile> load_train_config(const std::string& path) {
  STOKER_TRY(text, os::read_file(path, kLargestYaml));
  return read_train_config(text, path);
}

}  // namespace stoker::configs
