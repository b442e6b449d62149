#include "worker/train/checkpoint/audit.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <sstream>

#include "common/hash.hpp"
#include "recipe/batch_plan.hpp"
#include "recipe/sequence_plan.hpp"

namespace stoker::train {
namespace {

std::string exact(double value) {
  return fmt::format("{:.17g}", value);
}

std::string optimizer_text(const recipe::TrainConfig& c) {
  return fmt::format("beta {:.17g} {:.17g} eps {:.17g} decay {:.17g} clip {:.17g}",
                     c.optimizer.beta1, c.optimizer.beta2, c.optimizer.eps,
                     c.optimizer.weight_decay, c.train.clip);
}

std::string schedule_text(const recipe::LrSchedule& lr) {
  return fmt::format("{} max {:.17g} min {:.17g} initial {:.17g} warmup {} decay {} wsd {}",
                     name_of(lr.style), lr.max, lr.min, lr.initial, lr.warmup_samples,
                     lr.decay_samples, lr.wsd_decay_samples);
}

// What the global batch will be, beyond what consumed samples show.
std::string batch_text(const recipe::BatchConfig& b) {
  std::string text = fmt::format("global {}", b.global);
  if (b.ramp_up)
    text +=
        fmt::format(" ramp {} {} {}", b.ramp_up->start, b.ramp_up->increment, b.ramp_up->samples);
  for (const auto& step : b.steps) text += fmt::format(" {}:{}", step.from_samples, step.global);
  return text;
}

std::string micro_text(const recipe::BatchConfig& b) {
  std::string text;
  for (const auto& step : b.micro) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", step.micro);
    if (step.until_samples) text += fmt::format(" until {}", *step.until_samples);
  }
  return text;
}

bool has_text(const Json& training, const char* key) {
  const auto found = training.is_object() ? training.find(key) : training.end();
  return training.is_object() && found != training.end() && found->is_string();
}

std::string saved_text(const Json& training, const char* key) {
  const auto found = training.is_object() ? training.find(key) : training.end();
  if (!training.is_object() || found == training.end() || !found->is_string()) return "(not saved)";
  return found->get<std::string>();
}

std::string mesh_text(const std::map<std::string, std::uint64_t>& mesh) {
  std::string text;
  for (const auto& [axis, size] : mesh)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis, size);
  return text;
}

std::string guarantee_of(const wire::Manifest& m, const AuditFacts& facts,
                         const std::map<std::string, std::uint64_t>& mesh) {
  if (m.mesh != mesh)
    return "tolerance 1e-5 a step in f32: the topology differs, so sums are added in another order";
  const std::pair<const char*, std::string> orders[] = {
      {"micro batch", micro_text(facts.config.batch)}, {"stages", facts.stages}};
  for (const auto& [what, now] : orders)
    if (has_text(m.training, what) && saved_text(m.training, what) != now)
      return fmt::format(
          "tolerance 1e-5 a step in f32: the {} was {}, is {}, so sums are added in another order",
          what, saved_text(m.training, what), now);
  std::map<std::string, std::string> either = m.numerics;  // what only one of the two has, too
  either.insert(facts.numerics.begin(), facts.numerics.end());
  const auto value_in = [](const std::map<std::string, std::string>& numerics,
                           const std::string& what) {
    const auto found = numerics.find(what);
    return found == numerics.end() ? std::string() : found->second;
  };
  for (const auto& [what, unused] : either) {
    const std::string saved = value_in(m.numerics, what), now = value_in(facts.numerics, what);
    if (saved != now)
      return fmt::format("tolerance 1e-5 a step in f32: {} was \"{}\", is \"{}\"", what, saved,
                         now);
  }
  return "bitwise";
}

}  // namespace

std::string model_text(const recipe::ModelConfig& m) {
  return fmt::format("layers {} hidden {} heads {} ffn {} sequence {} vocabulary {} position {}",
                     m.layers, m.hidden, m.heads, m.ffn, m.sequence, m.vocabulary,
                     name_of(m.position));
}

Result<recipe::ModelConfig> model_of(const wire::Manifest& manifest) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  recipe::ModelConfig m;
  std::istringstream in(saved_text(manifest.training, "model"));
  const std::pair<const char*, std::uint64_t&> numbers[] = {
      {"layers", m.layers}, {"hidden", m.hidden},     {"heads", m.heads},
      {"ffn", m.ffn},       {"sequence", m.sequence}, {"vocabulary", m.vocabulary}};
  for (const auto& [name, number] : numbers) {
    std::string word;
    if (!(in >> word >> number) || word != name || number == 0 || number > kMost)
      return fail("does not say which model it is: an older build saved it", "manifest",
                  "resume the training with this build and save again");
  }
  if (m.hidden % m.heads != 0) return fail("heads do not divide hidden", "manifest");
  if (has_text(manifest.training, "dropout"))
    m.dropout = std::strtod(saved_text(manifest.training, "dropout").c_str(), nullptr);
  return m;
}

double learning_rate_at(const recipe::TrainConfig& config, const Position& position) {
  return position.lr_scale *
         recipe::lr_at(config.lr, position.consumed_samples - position.idle_samples);
}

Json training_facts(const AuditFacts& facts, const Position& position) {
  const recipe::TrainConfig& c = facts.config;
  return Json{{"position", position},
              {"seed", std::to_string(c.train.seed)},
              {"dropout", exact(c.model.dropout)},
              {"dtype", std::string(name_of(c.train.dtype))},
              {"data", hex64(facts.data_digest)},
              {"optimizer", optimizer_text(c)},
              {"model", model_text(c.model)},
              {"learning rate schedule", schedule_text(c.lr)},
              {"batch", batch_text(c.batch)},
              {"curriculum", recipe::curriculum_text(c)},
              {"micro batch", micro_text(c.batch)},
              {"stages", facts.stages},
              {"tokenizer", c.data.train.empty() ? "" : c.data.train.front().prefix}};
}

Json imported_facts(const recipe::ModelConfig& model, const std::string& from) {
  return Json{{"position", Position{}},
              {"imported", from},
              {"model", model_text(model)},
              {"dropout", exact(model.dropout)}};
}

wire::ResumeAudit audit_resume(const std::string& checkpoint, const wire::Manifest& manifest,
                               const Position& position, const AuditFacts& facts,
                               const std::set<std::string>& accepted) {
  const recipe::TrainConfig& c = facts.config;
  wire::ResumeAudit audit{checkpoint, manifest.iteration, true, "", {}};
  const auto compare = [&](const std::string& what, const std::string& saved,
                           const std::string& now) {
    audit.items.push_back({what, saved, now, saved == now});
    if (saved != now && !accepted.contains(what)) audit.passed = false;
  };
  // An import brings a model; the rest begins with this training.
  const bool imported = has_text(manifest.training, "imported");
  const auto compare_run = [&](const std::string& what, const std::string& saved,
                               const std::string& now) {
    if (imported)
      audit.items.push_back({what, "(imported)", now, true});
    else
      compare(what, saved, now);
  };
  const auto plan = recipe::BatchPlan::make(c.batch);
  const auto iteration = plan ? plan->iteration_at(position.consumed_samples) : std::nullopt;
  compare("iteration", std::to_string(manifest.iteration.value),
          iteration ? std::to_string(iteration->value) : "none ends here");
  compare("consumed samples", std::to_string(manifest.consumed_samples),
          plan ? std::to_string(plan->consumed_after(manifest.iteration)) : "no plan");
  compare("consumed tokens", std::to_string(manifest.consumed_tokens),
          plan ? std::to_string(
                     recipe::tokens_after(c, *plan, manifest.iteration, manifest.consumed_samples))
               : "no plan");
  compare_run("learning rate", exact(manifest.learning_rate), exact(learning_rate_at(c, position)));
  compare_run("rng",
              saved_text(manifest.training, "seed") + " dropout " +
                  saved_text(manifest.training, "dropout"),
              std::to_string(c.train.seed) + " dropout " + exact(c.model.dropout));
  compare_run("data position",
              fmt::format("{} at {}", saved_text(manifest.training, "data"),
                          manifest.consumed_samples + position.data_offset),
              fmt::format("{} at {}", hex64(facts.data_digest),
                          position.consumed_samples + position.data_offset));
  compare_run("dtype", saved_text(manifest.training, "dtype"), std::string(name_of(c.train.dtype)));
  compare_run("optimizer", saved_text(manifest.training, "optimizer"), optimizer_text(c));
  // Older builds had none.
  compare_run("curriculum",
              has_text(manifest.training, "curriculum")
                  ? saved_text(manifest.training, "curriculum")
                  : "none",
              recipe::curriculum_text(c));
  // Checkpoints of older builds do not have these: nothing to compare with.
  const auto compare_if_saved = [&](const char* what, const std::string& now) {
    if (has_text(manifest.training, what)) compare(what, saved_text(manifest.training, what), now);
  };
  compare_if_saved("model", model_text(c.model));
  compare_if_saved("learning rate schedule", schedule_text(c.lr));
  compare_if_saved("batch", batch_text(c.batch));
  const std::map<std::string, std::uint64_t> mesh{
      {"tp", facts.mesh.tp}, {"pp", facts.mesh.pp}, {"dp", facts.mesh.dp}};
  const std::string before = mesh_text(manifest.mesh), now = mesh_text(mesh);
  audit.items.push_back({"topology", before, now, before == now});
  audit.guarantee =
      imported ? "parameters as imported, new moments" : guarantee_of(manifest, facts, mesh);
  return audit;
}

std::string audit_line(const wire::ResumeAudit& audit) {
  std::string text = fmt::format("resume audit: {} {} | guarantee: {}", audit.checkpoint,
                                 audit.passed ? "passed" : "REFUSED", audit.guarantee);
  for (const auto& item : audit.items)
    text += item.equal
                ? fmt::format(" | {} {}", item.what, item.now)
                : fmt::format(" | {} CHANGED from {} to {}", item.what, item.saved, item.now);
  return text;
}

}  // namespace stoker::train
