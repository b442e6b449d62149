// Going back: where to, with what, and what came of it. A person orders it, or the policy
// (recover.rollback, off by default). Each is an experiment: written down with what it left, and
// compared with that line once the training has come as far again.
#pragma once

#include <optional>
#include <string>

#include "core/alerts/alert_kind.hpp"
#include "core/turn.hpp"
#include "wire/orders.hpp"

namespace stoker::core {

struct RollbackPlan {
  Iteration to;
  Generation generation;   // whose checkpoint
  double lr_scale = 1;     // of the configuration's
  std::uint64_t skip = 0;  // samples after the checkpoint
  std::string why_not;     // "" = it can be done
};

// What recover.rollback would do about losses that went wrong at `onset`: the newest checkpoint
// before it (one further back than the last try that did not help), the learning rate scaled once
// more, the samples since left out. Never past a pinned checkpoint.
RollbackPlan plan_rollback(const RunState& run, Iteration onset);
// "to the checkpoint of 90, learning rate x 0.75, without 512 samples"
std::string plan_text(const RollbackPlan& plan);
// The command line that does it.
std::string rollback_command(const RunState& run, const RollbackPlan& plan);

// The data that rollbacks left out, as long as a checkpoint from before them may be resumed from.
// One that goes back behind another left that one's line, and with it what that had left out.
std::vector<wire::Skip> skips_of(const std::vector<Experiment>& experiments);

void go_back(Turn& turn, const RollbackPlan& plan, const std::string& by, const std::string& why);

// The loss is lasting bad: reported, and where the policy allows it rolled back, or held when its
// tries are spent. True: the run was ordered to exit.
bool heed_divergence(Turn& turn, AlertKind kind, const std::string& evidence);
// A checkpoint is gone or damaged: where orders go back to it that no start has taken yet, a person
// decides where to instead.
void heed_lost_target(Turn& turn, const wire::CheckpointId& lost, const std::string& how);
// The orders that go back lead nowhere: they are forgotten, and a person decides.
void give_up_rollback(Turn& turn, const std::string& sentence);
// A generation began by orders older than those of a rollback: it could not read them yet.
void heed_older_orders(Turn& turn);
// Compares an experiment that has come as far as the line that it left.
void judge_experiments(Turn& turn);

}  // namespace stoker::core
