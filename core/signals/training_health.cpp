// The trail, the resume audit from log lines, and the loss.
#include "core/signals/training_health.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"

namespace stoker::core {
namespace {

constexpr std::uint32_t kRateReadings = 5;  // digests in which a learning rate must show
constexpr std::uint64_t kLevelCount = 20;   // losses that make the level of a start
constexpr std::uint32_t kLevelReadings = 8;
constexpr std::size_t kAlikeLeast = 16;  // iterations that both lines have
constexpr double kAlike = 0.3;

TrailPoint point_of(const Digest& digest) {
  const wire::Beat& beat = digest.last;
  TrailPoint point;
  point.iteration = beat.iteration_max;
  point.samples = beat.consumed_samples;
  point.tokens = beat.consumed_tokens;
  point.learning_rate = beat.learning_rate > 0 && beat.learning_rate < 1e6 ? beat.learning_rate : 0;
  point.loss = digest.losses.mean;
  point.count = digest.losses.count;
  point.scale = digest.losses.scale;
  return point;
}

std::string items_text(const std::vector<wire::AuditItem>& items, bool equal) {
  std::string text;
  for (const wire::AuditItem& item : items) {
    if (item.equal != equal) continue;
    text += text.empty() ? "" : ", ";
    text += equal ? fmt::format("{} {}", item.what, item.now)
                  : fmt::format("{}: {} before, {} now", item.what, item.saved, item.now);
  }
  return text;
}

// A start that does not go on where the line before it was: ended before it wastes a night, unless
// its configuration was changed on purpose or a person takes it as it is. True: it is ended.
bool refuse_start(Turn& turn, const std::vector<wire::AuditItem>& items, Iteration at) {
  RunState& run = turn.r();
  const std::string found = items_text(items, false);
  const std::string head =
      fmt::format("resume audit from the log lines at iteration {}: {}", at.value, found);
  if (run.recovery.trail.as_is || run.recovery.trail.check.changed) {
    turn.say(fmt::format("{}; {}", head,
                         run.recovery.trail.as_is
                             ? "accepted, as requested with --as-is"
                             : "the configuration was changed, so this may be intended"));
    raise(turn, {Severity::Warning, "resume_audit", fmt::format("{}: {}", turn.name().text, head),
                 command_text(turn.name(), "why"), ""});
    run.recovery.trail.check = {};
    run.recovery.trail.points.clear();  // of another recipe: nothing to hold the next start against
    run.recovery.trail.as_is = false;
    return false;
  }
  hold(turn, {"resume_audit",
              head,
              fmt::format("find what the start did not restore; `{} --as-is` accepts it",
                          command_text(turn.name(), "resume")),
              {}});
  return true;
}

// Reported only: programs that do not save it start over each time and find it within minutes.
void tell_scale(Turn& turn, const wire::AuditItem& scale) {
  const std::string text = fmt::format(
      "the loss scale begins at {}, it was {}: it was not restored, or the optimizer's state was "
      "not",
      scale.now, scale.saved);
  turn.say(text);
  raise(turn, {Severity::Warning, "resume_audit", fmt::format("{}: {}", turn.name().text, text),
               command_text(turn.name(), "why"), ""});
}

bool has_failed(const std::vector<wire::AuditItem>& items) {
  return std::any_of(items.begin(), items.end(), [](const auto& item) { return !item.equal; });
}

// Of the newer half of what was trained up to an iteration.
std::vector<double> losses_before(const Trail& trail, Iteration iteration) {
  std::vector<double> losses;
  for (const TrailPoint& p : trail.points)
    if (p.count > 0 && p.iteration <= iteration && p.iteration.value >= iteration.value / 2)
      losses.push_back(p.loss);
  return losses;
}

// The losses that are to come are those of the iterations after `from`.
void go_on_from(RunState& run, Iteration from) {
  const ResumeCheck& check = run.recovery.trail.check;
  const bool starts_over = check.rolled_back || check.changed;
  signals::go_on_from(
      run.health.loss, from,
      starts_over ? std::vector<double>{} : losses_before(run.recovery.trail, from));
}

// The first iteration of an attempt, its first learning rate, its first losses. True: it is ended.
bool audit_start(Turn& turn, const TrailPoint& point) {
  Trail& trail = turn.r().recovery.trail;
  ResumeCheck& check = trail.check;
  if (check.due) {
    check.due = false;
    check.ranks = turn.r().live->world_size;
    if (!check.told) {
      check.from =
          Iteration(point.iteration.value -
                    std::min(point.iteration.value, std::max<std::uint64_t>(1, point.count)));
      go_on_from(turn.r(), check.from);
    }
    auto items = compare_start(trail, point);
    const auto rate = compare_rate(trail, point);
    if (rate) items.push_back(*rate);
    const auto scale = compare_scale(trail, point);
    if (scale && scale->equal) items.push_back(*scale);
    check.rate_due = !rate && learning_rate_at(trail.points, point.iteration).has_value();
    if (has_failed(items) && refuse_start(turn, items, point.iteration)) return true;
    const bool compared = !items.empty() && !trail.points.empty();
    turn_back(trail, check.from);
    note_break(trail, check.from, point);
    check.level_due = !trail.points.empty() || !trail.left.empty();
    check.order_due = !trail.left.empty() && check.skip == 0;
    if (compared && !has_failed(items)) {
      turn.say(
          fmt::format("resume audit from the log lines: {} as before", items_text(items, true)));
      resolve(turn, "resume_audit");
    }
    if (scale && !scale->equal) tell_scale(turn, *scale);
  } else if (check.rate_due && ++check.readings <= kRateReadings) {
    const auto rate = compare_rate(trail, point);
    if (!rate) return false;
    check.rate_due = false;
    if (!rate->equal && refuse_start(turn, {*rate}, point.iteration)) return true;
  }
  return false;
}

bool audit_level(Turn& turn, const TrailPoint& point) {
  Trail& trail = turn.r().recovery.trail;
  ResumeCheck& check = trail.check;
  if (!check.level_due || point.count == 0) return false;
  ++check.readings;
  check.sum += point.loss * static_cast<double>(point.count);
  check.count += point.count;
  if (check.count < kLevelCount && check.readings < kLevelReadings) return false;
  check.level_due = false;
  const auto level = compare_level(trail);
  if (!level || level->equal) return false;
  return refuse_start(turn, {*level}, point.iteration);
}

// Equal counts of samples say nothing about their order; losses do: hard batches are hard again.
void audit_order(Turn& turn) {
  Trail& trail = turn.r().recovery.trail;
  if (!trail.check.order_due) return;
  const bool passed = trail.points.back().iteration >= trail.left.back().iteration;
  const auto alike = likeness(trail.points, trail.left, passed ? kAlikeLeast : 2 * kAlikeLeast);
  if (!alike && !passed) return;
  trail.check.order_due = false;
  if (!alike) return;
  if (*alike >= kAlike) return resolve(turn, "data_order");
  const std::string text = fmt::format(
      "the losses up to iteration {} do not match those that were logged before "
      "(correlation {:.2f}, with the same data near 1): other data, or in another order",
      trail.points.back().iteration.value, *alike);
  turn.say(text);
  raise(turn, {Severity::Warning, "data_order", fmt::format("{}: {}", turn.name().text, text),
               command_text(turn.name(), "why"), ""});
}

void watch_losses(Turn& turn, const Digest& digest) {
  using signals::LossNews;
  RunState& run = turn.r();
  const signals::LossReading reading{turn.now(), digest.last.iteration_max, digest.losses,
                                     run.health.progress.learning_rate};
  const signals::LossVerdict v = signals::watch_loss(run.health.loss, reading);
  const auto alert = [&](Severity severity, AlertKind kind) {
    raise(turn, {severity, kind, fmt::format("{}: {}", turn.name().text, v.evidence),
                 command_text(turn.name(), "why"), ""});
  };
  switch (v.news) {
    case LossNews::Nothing: return;
    case LossNews::Blip:
    case LossNews::OneNotFinite: return turn.say(v.evidence);
    case LossNews::SpikeBegan:
      turn.say(v.evidence + (run.health.loss.spike && run.health.loss.spike->sudden
                                 ? "; waiting: sudden spikes usually recover"
                                 : "; watching whether it recovers"));
      return alert(Severity::Warning, "loss_spike");
    case LossNews::SpikeRecovered:
    case LossNews::Shifted:
      turn.say(v.evidence);
      resolve(turn, "loss_spike");
      return resolve(turn, "loss_diverged");
    case LossNews::FiniteAgain: turn.say(v.evidence); return resolve(turn, "loss_not_finite");
    case LossNews::ScaleCollapsed:
      if (run.health.loss.scale_gone) return void(heed_divergence(turn, "loss_scale", v.evidence));
      turn.say(v.evidence);
      return alert(Severity::Warning, "loss_scale");
    case LossNews::ScaleRecovered: turn.say(v.evidence); return resolve(turn, "loss_scale");
    case LossNews::Diverged: heed_divergence(turn, "loss_diverged", v.evidence); return;
    case LossNews::NotFinite: heed_divergence(turn, "loss_not_finite", v.evidence); return;
  }
}

}  // namespace

void begin_numbers(Turn& turn, Iteration from) {
  RunState& run = turn.r();
  Trail& trail = run.recovery.trail;
  const std::uint32_t ranks = trail.check.ranks;
  const bool changed = trail.check.changed;
  trail.check = {};
  trail.check.due = !trail.points.empty() || trail.saved.value > 0;
  trail.check.from = from;
  trail.check.told = from.value > 0;
  trail.check.saved = trail.saved;
  trail.check.ranks_before = ranks;
  trail.check.changed = changed;
  trail.check.rolled_back =
      run.live && run.asked.exact_order && run.live->order == *run.asked.exact_order;
  trail.check.rate_factor = trail.rate_factor;
  trail.check.skip = trail.skip;
  go_on_from(run, from.value > 0 ? from : run.health.progress.iteration);
  signals::begin_attempt(run.health.speed);
}

void forget_saved(RunState& run, Iteration iteration) {
  auto& known = run.health.checkpoint.known;
  known.erase(iteration.value);
  if (run.recovery.trail.saved == iteration)
    run.recovery.trail.saved = Iteration(known.empty() ? 0 : known.rbegin()->first);
  run.recovery.trail.check.saved =
      std::min(run.recovery.trail.check.saved, run.recovery.trail.saved);
}

void note_saved(Turn& turn, Iteration iteration) {
  Trail& trail = turn.r().recovery.trail;
  trail.saved = std::max(trail.saved, iteration);
}

void watch_numbers(Turn& turn, const Digest& digest) {
  RunState& run = turn.r();
  const bool told = digest.iteration_ms.count + digest.losses.count + digest.losses.not_finite > 0;
  if (turn.kind() != TrainingKind::Training || !told || digest.last.iteration_max.value == 0)
    return;
  TrailPoint point = point_of(digest);
  point.rate_scale = run.asked.lr_scale;
  const bool advanced = run.recovery.trail.points.empty() ||
                        point.iteration != run.recovery.trail.points.back().iteration;
  if (audit_start(turn, point)) return;
  const Iteration saved = digest.last.checkpoint;  // lines tell; beyond it: of a line that was left
  if (run.health.checkpoint.known.empty() && saved <= digest.last.iteration_max)
    note_saved(turn, saved);
  if (point.count > 0 && advanced) {
    record(run.recovery.trail, point);
    if (audit_level(turn, point)) return;
    audit_order(turn);
    judge_experiments(turn);
  }
  watch_losses(turn, digest);
  if (turn.kind() == TrainingKind::Training) watch_slow(turn, digest);
}

}  // namespace stoker::core
