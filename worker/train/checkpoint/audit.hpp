// The resume audit: what was saved against what the configuration and the data give now. Silent
// changes of these have cost whole runs (a learning rate that began again, data that was drawn
// again). Everything in TRAIN.yaml that changes the function computed is an item; what changes only
// the order of additions (micro-batch, topology, stages, libraries, CPUs) changes the guarantee.
#pragma once

#include <set>
#include <string>

#include "recipe/train_config.hpp"
#include "wire/checkpoint_manifest.hpp"
#include "wire/resume_audit.hpp"
#include "worker/train/checkpoint/position.hpp"
#include "worker/train/comm/mesh.hpp"

namespace stoker::train {

// What is there now, computed again from configuration and data.
struct AuditFacts {
  recipe::TrainConfig config;
  std::uint64_t data_digest = 0;
  Mesh mesh;
  std::map<std::string, std::string> numerics;
  std::string stages;  // Pipeline::order(); "": unknown
};

// The learning rate that is in force at a position, with its scale.
double learning_rate_at(const recipe::TrainConfig& config, const Position& position);
// manifest.training: what audit_resume compares.
Json training_facts(const AuditFacts& facts, const Position& position);
// The same of a model that came from elsewhere: at position 0, without a past.
Json imported_facts(const recipe::ModelConfig& model, const std::string& from);
// The item "model": what of the configuration is the model's shape.
std::string model_text(const recipe::ModelConfig& model);
// From that item, with dropout. Error: an older build saved the checkpoint without it.
Result<recipe::ModelConfig> model_of(const wire::Manifest& manifest);

// `accepted` holds names of items whose change is wanted (--accept).
wire::ResumeAudit audit_resume(const std::string& checkpoint, const wire::Manifest& manifest,
                               const Position& position, const AuditFacts& facts,
                               const std::set<std::string>& accepted);
// One line for the log.
std::string audit_line(const wire::ResumeAudit& audit);

}  // namespace stoker::train
