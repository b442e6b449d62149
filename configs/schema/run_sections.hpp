// The sections of RUN.yaml, one function each; private to run_schema.cpp. To add a key: its member
// in core/policy.hpp (of alerts: core/alerts/alert_policy.hpp) with its default; its line in the
// section's function in run_sections_*.cpp, with a check() of what cannot work; its meaning in
// meanings.cpp; then ./dev docs. It reaches what acts on it in the policy: in core/ as
// run.policy, in alerts/ as the AlertPolicy that the outbox is given.
#pragma once

#include <string>

#include "configs/schema/run_schema.hpp"

namespace stoker::configs {

// `folder` is RUN.yaml's: relative paths count from it.
void read_scheduler(MapReader& m, core::SchedulerPolicy& p, const std::string& folder);
void read_train(MapReader& m, core::TrainPolicy& p, const std::string& folder);
void read_watch(MapReader& m, core::WatchPolicy& p, const std::string& folder);
void read_hang(MapReader& m, core::HangPolicy& p);
void read_recover(MapReader& m, core::RecoverPolicy& p);
void read_checkpoints(MapReader& m, core::CheckpointPolicy& p, const std::string& folder);
void read_goodput(MapReader& m, core::GoodputPolicy& p);
void read_after(MapReader& root, core::RunPolicy& p);
void read_budget(MapReader& m, core::BudgetPolicy& p);
void read_alerts(MapReader& m, core::AlertPolicy& p, const RunSchemaContext& context);

// Reads a duration that must be longer than nothing.
void read_positive(MapReader& m, std::string_view key, Duration& out);
// Reads a number that must be in [low, high].
void read_between(MapReader& m, std::string_view key, std::uint32_t& out, std::uint32_t low,
                  std::uint32_t high);
// Adds "key: what; not supported by this version" at the value, unless `supported`.
void refuse_unless(MapReader& m, std::string_view key, bool supported, std::string_view what);

}  // namespace stoker::configs
