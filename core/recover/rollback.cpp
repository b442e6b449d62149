// Plans and their comparison are pure; the journal has them as decisions.
#include "core/recover/rollback.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

constexpr std::size_t kExperimentsKept = 16;
constexpr double kSameLoss = 0.005;  // of the loss: less is no difference
constexpr const char* kBySelf = "stoker";

// Tries since one helped: the newest first.
std::uint32_t tries(const RunState& run) {
  std::uint32_t count = 0;
  for (auto it = run.recovery.experiments.rbegin(); it != run.recovery.experiments.rend(); ++it) {
    if (it->judged && it->better) break;
    if (it->by == kBySelf) ++count;
  }
  return count;
}

// Before this iteration the next try begins: the last one did not go back far enough if the loss
// went wrong again without its having helped.
Iteration begin_before(const RunState& run, Iteration onset) {
  if (run.recovery.experiments.empty()) return onset;
  const Experiment& last = run.recovery.experiments.back();
  const bool helped = last.judged && last.better;
  const std::uint64_t redone = last.left.value - std::min(last.left.value, last.to.value);
  const bool near = onset > last.to && onset.value <= last.left.value + redone;
  return !helped && near && last.to < onset ? last.to : onset;
}

std::string pinned_between(const RunState& run, Iteration to) {
  for (const std::uint64_t pin : run.policy.checkpoints.pin)
    if (pin > to.value && pin <= run.health.progress.iteration.value)
      return fmt::format("it would go past the pinned checkpoint of {}", pin);
  return "";
}

void judge(Turn& turn, Experiment& e, std::optional<double> now, bool again) {
  e.judged = true;
  const std::string name =
      fmt::format("experiment {} (back to {}, learning rate x {}{})", e.number, e.to.value,
                  e.lr_scale, e.skip == 0 ? "" : fmt::format(", without {} samples", e.skip));
  if (again) {
    e.better = false;
    return turn.say(fmt::format("{} did not help: the loss went wrong again before iteration {}",
                                name, e.left.value));
  }
  if (!now) return;
  e.now_loss = now;
  if (!e.left_loss && !e.not_finite) return;
  if (!e.left_loss) {
    e.better = true;
    return turn.say(
        fmt::format("{} is better: over iterations {}-{} the loss is {:.4g}, on the line that it "
                    "left it was not a number",
                    name, e.compare_from.value, e.left.value, *now));
  }
  const double change = *now / *e.left_loss - 1;
  e.better = change < -kSameLoss;
  turn.say(
      fmt::format("{} is {}: over iterations {}-{} the loss is {:.4g}, on the line that it left "
                  "{:.4g} ({:+.1f} %)",
                  name,
                  e.better              ? "better"
                  : change <= kSameLoss ? "no different"
                                        : "worse",
                  e.compare_from.value, e.left.value, *now, *e.left_loss, 100 * change));
}

}  // namespace

RollbackPlan plan_rollback(const RunState& run, Iteration onset) {
  RollbackPlan plan;
  const Iteration before = begin_before(run, onset);
  const auto& known = run.health.checkpoint.known;
  auto found = known.lower_bound(before.value);
  if (run.policy.checkpoints.format != "stoker" || !has_agents(run.policy)) {
    plan.why_not = "automatic rollback needs checkpoints that stoker can read";
    return plan;
  }
  if (found == known.begin()) {
    plan.why_not = fmt::format("there is no checkpoint before iteration {}", before.value);
    return plan;
  }
  --found;
  plan.to = Iteration(found->first);
  plan.generation = found->second;
  plan.lr_scale = run.asked.lr_scale * run.policy.recover.rollback_lr_scale;
  if (const auto at = samples_at(run.recovery.trail, plan.to);
      at && run.health.progress.samples > static_cast<std::uint64_t>(at->high))
    plan.skip = run.health.progress.samples - static_cast<std::uint64_t>(at->high);
  plan.why_not = pinned_between(run, plan.to);
  return plan;
}

std::string plan_text(const RollbackPlan& plan) {
  return fmt::format("to the checkpoint of {}{}{}", plan.to.value,
                     plan.lr_scale == 1.0 ? "" : fmt::format(", learning rate x {}", plan.lr_scale),
                     plan.skip == 0 ? "" : fmt::format(", skipping {} samples", plan.skip));
}

std::string rollback_command(const RunState& run, const RollbackPlan& plan) {
  return fmt::format("stoker rollback {} --to {} --lr-scale {}{} --reason \"...\"",
                     run.policy.run.text, plan.to.value, plan.lr_scale,
                     plan.skip == 0 ? "" : fmt::format(" --skip-samples {}", plan.skip));
}

void go_back(Turn& turn, const RollbackPlan& plan, const std::string& by, const std::string& why) {
  RunState& run = turn.r();
  Experiment e;
  e.number = run.recovery.experiments.empty() ? 1 : run.recovery.experiments.back().number + 1;
  e.by = by;
  e.wall = turn.event.wall;
  e.to = plan.to;
  e.left = run.health.progress.iteration;
  e.generation = plan.generation;
  e.through = run.newest;
  e.lr_scale = plan.lr_scale;
  e.skip = plan.skip;
  const std::uint64_t onset = run.health.loss.bad_from ? run.health.loss.bad_from->value : 0;
  e.not_finite = run.health.loss.told_not_finite;
  e.compare_from = Iteration(std::max(plan.to.value + 1, onset));
  e.left_loss = mean_loss(run.recovery.trail.points, Iteration(e.compare_from.value - 1), e.left);
  run.recovery.experiments.push_back(std::move(e));
  if (run.recovery.experiments.size() > kExperimentsKept)
    run.recovery.experiments.erase(run.recovery.experiments.begin());
  run.recovery.trail.rate_factor = plan.lr_scale;
  run.recovery.trail.skip = plan.skip;
  run.asked.lr_scale = plan.lr_scale;
  signals::forget_after(run.health.loss, plan.to);
  resolve(turn, "loss_spike");
  supply::write_orders(turn, wire::Resume{wire::ResumeMode::Exact, plan.to, plan.generation},
                       plan.skip);
  run.recovery.budget.best = plan.to;
  if (turn.active()) return leave(turn, training::Goal::Next, wire::Level::LeaveNow, why);
  turn.say(why);
}

bool heed_divergence(Turn& turn, AlertKind kind, const std::string& evidence) {
  RunState& run = turn.r();
  const RecoverPolicy& policy = run.policy.recover;
  turn.say(evidence);
  for (Experiment& e : run.recovery.experiments)
    if (!e.judged && run.health.progress.iteration < Iteration(e.left.value + 1))
      judge(turn, e, {}, true);
  const RollbackPlan plan =
      plan_rollback(run, run.health.loss.bad_from.value_or(run.health.progress.iteration));
  const std::string summary = fmt::format("{}: {}", turn.name().text, evidence);
  if (!plan.why_not.empty()) {
    turn.say(fmt::format("cannot roll back: {}", plan.why_not));
    raise(turn, {Severity::Critical, kind, summary, command_text(turn.name(), "why"), ""});
    return false;
  }
  if (!policy.rollback_enabled) {
    turn.say(fmt::format("recover.rollback is off; it would roll back {}", plan_text(plan)));
    raise(turn, {Severity::Critical, kind, summary, rollback_command(run, plan), ""});
    return false;
  }
  if (tries(run) >= policy.rollback_at_most) {
    hold(turn, {kind,
                fmt::format("{} did not help (recover.rollback.at_most {})",
                            count_text(tries(run), "rollback"), policy.rollback_at_most),
                fmt::format("read `{}`, change the recipe, then roll back manually: {}",
                            command_text(turn.name(), "chronicle"), rollback_command(run, plan)),
                {}});
    return true;
  }
  raise(turn, {Severity::Critical, kind, summary, command_text(turn.name(), "why"), ""});
  go_back(turn, plan, kBySelf,
          fmt::format("going back {} (try {} of {})", plan_text(plan), tries(run) + 1,
                      policy.rollback_at_most));
  return true;
}

std::vector<wire::Skip> skips_of(const std::vector<Experiment>& experiments) {
  std::vector<wire::Skip> skips;
  for (const Experiment& e : experiments) {
    std::erase_if(skips, [&](const wire::Skip& s) { return s.through >= e.generation; });
    if (e.skip > 0) skips.push_back({e.through, e.skip});
  }
  return skips;
}

void give_up_rollback(Turn& turn, const std::string& sentence) {
  RunState& run = turn.r();
  run.asked.exact_order.reset();
  if (!run.recovery.experiments.empty()) run.recovery.experiments.pop_back();  // nothing went back
  run.asked.lr_scale =
      run.recovery.experiments.empty() ? 1 : run.recovery.experiments.back().lr_scale;
  run.recovery.trail.rate_factor = run.asked.lr_scale;
  run.recovery.trail.skip =
      run.recovery.experiments.empty() ? 0 : run.recovery.experiments.back().skip;  // taken again
  const auto* stopping = turn.in<training::Stopping>();
  const bool goes_on = stopping != nullptr ? stopping->goal == training::Goal::Next
                                           : turn.active() || turn.kind() == TrainingKind::Queued;
  if (!goes_on) return turn.say(sentence);
  hold(turn, {"rollback_failed",
              sentence,
              fmt::format("roll back to another checkpoint: stoker rollback {} --to N; a resume "
                          "takes the newest",
                          turn.name().text),
              {}});
}

void heed_lost_target(Turn& turn, const wire::CheckpointId& lost, const std::string& how) {
  const RunState& run = turn.r();
  if (!run.asked.exact_order || run.recovery.experiments.empty() ||
      run.recovery.experiments.back().to != lost.iteration)
    return;
  if (run.live && run.live->order == *run.asked.exact_order) return;  // it trains from it
  give_up_rollback(
      turn,
      fmt::format("the checkpoint {} was {} before a start took order {} that goes back to it",
                  wire::checkpoint_name(lost.iteration, lost.generation), how,
                  run.asked.exact_order->value));
}

void heed_older_orders(Turn& turn) {
  const RunState& run = turn.r();
  if (!run.asked.exact_order || !run.live || run.live->order >= *run.asked.exact_order ||
      turn.in<training::Starting>() == nullptr)
    return;
  leave(turn, training::Goal::Next, wire::Level::LeaveNow,
        fmt::format(
            "it began by order {} before it could read order {}, which goes back{}: it exits so "
            "that the next start follows that order",
            run.live->order.value, run.asked.exact_order->value,
            run.recovery.experiments.empty()
                ? ""
                : fmt::format(" to {}", run.recovery.experiments.back().to.value)));
}

void judge_experiments(Turn& turn) {
  RunState& run = turn.r();
  if (run.recovery.experiments.empty()) return;
  Experiment& e = run.recovery.experiments.back();
  if (e.judged || run.health.progress.iteration < e.left || run.recovery.trail.points.empty() ||
      run.recovery.trail.points.back().iteration < e.left)
    return;
  judge(turn, e, mean_loss(run.recovery.trail.points, Iteration(e.compare_from.value - 1), e.left),
        false);
  if (e.better) {
    resolve(turn, "loss_diverged");
    resolve(turn, "loss_not_finite");
    resolve(turn, "loss_scale");
  }
}

}  // namespace stoker::core
