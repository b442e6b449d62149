// Views of the state for people and programs.
#include "core/publish/status.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "core/nodes/spares.hpp"
#include "core/publish/followers.hpp"
#include "core/publish/forecast.hpp"
#include "core/publish/spend.hpp"
#include "core/secrets.hpp"
#include "core/sentence.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/calendar.hpp"
#include "core/supply/command.hpp"
#include "core/supply/pending_reason.hpp"
#include "core/supply/suspended.hpp"

namespace stoker::core {

std::vector<std::string> conditions_of(const SiteState& state, const RunState& run) {
  std::vector<std::string> conditions;
  if (state.blind_since) conditions.emplace_back("scheduler_blind");
  if (!run.jobs.rivals.empty()) conditions.emplace_back("rival");
  if (supply::is_suspended(run)) conditions.emplace_back("suspended");
  if (run.asked.paused) conditions.emplace_back("paused");
  const bool fewer = run.live && !run.live->lost.empty();
  if (run.conditions.observe_only || fewer) conditions.emplace_back("degraded");
  if (run.conditions.no_room_since) conditions.emplace_back("disk_full");
  if (run.conditions.unread_since) conditions.emplace_back("directory_silent");
  if (run.conditions.daemon_away) conditions.emplace_back("daemon_away");
  return conditions;
}

std::vector<wire::StatusAlert> alerts_of(const SiteState& state, const RunName& run) {
  std::vector<const AlertState*> open;
  for (const auto& [id, alert] : state.alerts)
    if (alert.run == run) open.push_back(&alert);
  std::stable_sort(open.begin(), open.end(),
                   [](const AlertState* a, const AlertState* b) { return a->seq > b->seq; });
  std::vector<wire::StatusAlert> result;
  for (const AlertState* a : open)
    result.push_back({a->id, std::string(stoker::name_of(a->severity)), a->kind, a->summary,
                      a->reason, a->command, format_rfc3339(a->since), a->acknowledged});
  return result;
}

namespace {

void fill_job(wire::StatusDocument& doc, const RunState& run) {
  const supply::Submission* s = running_submission(run);
  if (s == nullptr)
    for (const auto& [token, waiting] : run.jobs.supply)
      if (waiting.live() && waiting.job.job != 0) s = &waiting;
  if (s == nullptr) return;
  const std::uint32_t task = running_task(*s);
  if (s->job.job != 0) doc.job = JobId{s->job.job, task}.text();
  const auto seen = s->tasks.find(task);
  doc.job_state = seen == s->tasks.end() ? "PENDING" : stoker::name_of(seen->second.state);
  if (seen != s->tasks.end())
    for (const NodeName& node : seen->second.nodes) doc.nodes.push_back(node.text);
}

void fill_progress(wire::StatusDocument& doc, const RunState& run, Instant now) {
  const Progress& p = run.health.progress;
  doc.iteration = p.iteration.value;
  doc.total = p.total;
  doc.consumed_samples = p.samples;
  doc.loss = p.loss;
  doc.learning_rate = p.learning_rate;
  if (std::holds_alternative<training::Training>(run.training)) {  // else it would be of the past
    doc.tflops = p.tflops;
    doc.step_s = p.step_ms / 1e3;
  }
  const auto found = run.health.phases.find(std::string(stoker::name_of(wire::Phase::Iteration)));
  if (found != run.health.phases.end())
    if (const auto median = found->second.durations.quantile(500))
      doc.step_norm_s = to_seconds(*median);
  for (const LossPoint& point : run.health.losses) doc.loss_history.push_back(point.loss);
  const bool moving = std::holds_alternative<training::Starting>(run.training) ||
                      std::holds_alternative<training::Training>(run.training) ||
                      std::holds_alternative<training::Suspect>(run.training);
  if (moving && run.live) {
    doc.phase = stoker::name_of(p.phase);
    if (p.oldest != Instant{}) doc.progress_age_s = to_seconds(now - p.oldest);
    doc.deadline_s = to_seconds(p.deadline);
  }
}

void fill_forecast(wire::StatusDocument& doc, const RunState& run, WallTime wall) {
  const auto f = forecast_of(run, wall);
  if (!f) return;
  doc.eta_s = f->left_s;
  doc.forecast = wire::StatusForecast{f->low_s,   f->high_s,     f->iterations_s, f->saves_s,
                                      f->waits_s, f->failures_s, f->tasks};
}

// Iterations that a beat reports are behind us.
void shorten(wire::StatusDocument& doc, std::uint64_t before) {
  if (!doc.eta_s || doc.total <= before || doc.iteration > doc.total) return;
  const double part =
      static_cast<double>(doc.total - doc.iteration) / static_cast<double>(doc.total - before);
  *doc.eta_s *= part;
  if (!doc.forecast) return;
  wire::StatusForecast& f = *doc.forecast;
  for (double* seconds :
       {&f.low_s, &f.high_s, &f.iterations_s, &f.saves_s, &f.waits_s, &f.failures_s})
    *seconds *= part;
}

void fill_slow(wire::StatusDocument& doc, const RunState& run, WallTime wall) {
  if (!run.health.speed.slow && run.recovery.bisect.suspects.empty()) return;
  const auto names = [](const std::vector<NodeName>& nodes) {
    std::vector<std::string> texts;
    for (const NodeName& node : nodes) texts.push_back(node.text);
    return texts;
  };
  wire::StatusSlow slow;
  slow.now = run.health.speed.slow.has_value();
  slow.iteration = run.recovery.bisect.from.value;
  if (run.health.speed.slow) {
    slow.iteration = run.health.speed.slow->from.value;
    slow.usual_s = run.health.speed.slow->usual_ms / 1e3;
    slow.step_s = run.health.speed.slow->now_ms / 1e3;
    if (const auto node = signals::slow_node(*run.health.speed.slow)) slow.node = node->text;
  }
  slow.suspects = names(run.recovery.bisect.suspects);
  slow.of = run.recovery.bisect.of;
  slow.spare = static_cast<std::uint32_t>(spare_nodes(run));
  slow.next_out = names(bisected_out(run, slow.spare));
  slow.starts_left = rounds_left(run.recovery.bisect.suspects.size(), slow.spare);
  for (const BisectRound& r : run.recovery.bisect.rounds)
    slow.rounds.push_back({r.iteration.value, names(r.out), r.slow, r.left});
  if (const auto worth = restart_worth(run, wall)) {
    slow.restart_cost_s = to_seconds(worth->cost);
    slow.restart_gain_s = to_seconds(worth->gain);
    slow.restart_chance = worth->chance;
  }
  doc.slow = std::move(slow);
}

void fill_costs(wire::StatusGoodput& goodput, const RunState& run, double gpus) {
  for (const auto& [cause, cost] : run.accounting.goodput.costs)
    goodput.causes.push_back(
        {cause, cost.times, to_seconds(cost.time), cost.node_hours, cost.node_hours * gpus});
  std::stable_sort(goodput.causes.begin(), goodput.causes.end(),
                   [](const auto& a, const auto& b) { return a.node_hours > b.node_hours; });
  for (const IncidentCost& i : run.accounting.goodput.incidents)
    goodput.incidents.push_back({i.kind, format_rfc3339(i.wall), i.iteration.value, i.repeated,
                                 to_seconds(i.time), i.node_hours, i.node_hours * gpus});
  goodput.mfu = mfu(run);
  if (goodput.mfu) goodput.mfu_whole = *goodput.mfu * goodput.ettr;
  if (const auto e = energy(run)) {
    wire::StatusEnergy out{e->kwh, {}, e->measured_share, e->how};
    if (run.policy.goodput.co2_g_per_kwh > 0) out.co2_kg = e->co2_kg;
    goodput.energy = std::move(out);
  }
}

void fill_spares(wire::StatusDocument& doc, const SiteState& state, const RunState& run,
                 Instant now) {
  if (!run.live) return;
  const auto needed = static_cast<std::uint32_t>(run.live->attempt_nodes.empty()
                                                     ? run.policy.scheduler.nodes.back().nodes
                                                     : run.live->attempt_nodes.size());
  const SpareForecast f =
      forecast_spares(state.ledger, needed, run.policy.recover.exclude_for, now);
  wire::StatusSpares spares;
  spares.known = f.known;
  spares.needed = f.needed;
  spares.out = f.out;
  spares.free = f.free;
  spares.lost_per_day = f.lost_per_day;
  if (f.out_in) spares.out_in_s = to_seconds(*f.out_in);
  spares.accused = state.ledger.accused;
  spares.falsely = state.ledger.false_ones;
  doc.spares = std::move(spares);
}

void fill_goodput(wire::StatusDocument& doc, const RunState& run) {
  if (whole(run.accounting.goodput) > 0ns) {
    wire::StatusGoodput goodput;
    goodput.whole_s = to_seconds(whole(run.accounting.goodput));
    goodput.ettr = ettr(run.accounting.goodput);
    for (const auto& [cause, time] : run.accounting.goodput.spent)
      goodput.spent_s[cause] = to_seconds(time);
    goodput.lost_node_hours = run.accounting.goodput.node_hours;
    const double gpus = run.policy.scheduler.gpus_per_node.value_or(0);
    goodput.lost_gpu_hours = run.accounting.goodput.node_hours * gpus;
    fill_costs(goodput, run, gpus);
    doc.goodput = std::move(goodput);
  }
  if (const auto advice = save_advice(run))
    doc.saves =
        wire::StatusSaves{to_seconds(advice->usual), to_seconds(advice->best),
                          to_seconds(advice->cost), to_seconds(advice->mtbf), advice->failures};
}

// What SLURM reports about the next task: "job 7_1: Priority (other jobs have a higher priority)",
// or why no task waits.
std::string waits_for(const RunState& run) {
  if (const auto& queued = std::get<training::Queued>(run.training); !queued.refused.empty())
    return fmt::format("; the scheduler rejected {}: {}",
                       count_text(run.jobs.failed_submits, "submission"), queued.refused);
  for (const auto& [token, s] : run.jobs.supply)
    for (const auto& [number, task] : s.tasks)
      if (s.live() && task.state == JobState::Pending && !task.reason.empty() &&
          task.reason != "None")
        return fmt::format("; {}: {} ({})", job_text({s.job.job, number}), task.reason,
                           supply::classify_reason(task.reason, !s.exclude.empty()).meaning);
  return "";
}

// The sentence that led here; in the queue why it waits, while it trains also how far that has
// carried since.
std::string reason_of(const RunState& run) {
  const bool training = std::holds_alternative<training::Training>(run.training);
  const std::uint64_t from = run.live ? run.live->loaded.value : 0;
  if (std::holds_alternative<training::Queued>(run.training)) return run.why + waits_for(run);
  if (!training || run.health.progress.iteration.value <= from) return run.why;
  return fmt::format("{}; {} since then", run.why,
                     count_text(run.health.progress.iteration.value - from, "iteration"));
}

}  // namespace

wire::StatusDocument status_of(const SiteState& state, const RunState& run, Instant now,
                               WallTime wall) {
  wire::StatusDocument doc;
  doc.run = run.policy.run.text;
  doc.directory = run.policy.directory;
  doc.state = state_name(run.training);
  doc.conditions = conditions_of(state, run);
  doc.since = format_rfc3339(run.since_wall);
  doc.reason = reason_of(run);
  doc.published = format_rfc3339(wall, true);
  fill_job(doc, run);
  doc.generation = run.live ? run.live->generation.value : run.newest.value;
  if (run.live) {
    doc.attempt = run.live->attempt.value;
    const auto& nodes = run.live->attempt_nodes.empty() ? run.live->nodes : run.live->attempt_nodes;
    doc.nodes.clear();
    for (const NodeName& node : nodes) doc.nodes.push_back(node.text);
  }
  fill_progress(doc, run, now);
  fill_forecast(doc, run, wall);
  if (run.health.checkpoint.iteration.value != 0)
    doc.checkpoint = wire::StatusCheckpoint{run.health.checkpoint.iteration.value,
                                            to_seconds(now - run.health.checkpoint.at)};
  if (run.health.checkpoint.archived.value != 0)
    doc.archive = wire::StatusArchive{run.health.checkpoint.archived.value,
                                      to_seconds(now - run.health.checkpoint.archived_at),
                                      run.health.checkpoint.archived_path};
  const RecoverPolicy& recover = run.policy.recover;
  doc.restarts = run.recovery.budget.restarts;
  doc.budget.restarts_total = recover.restarts_total;
  doc.budget.restarts_left =
      recover.restarts_total - std::min(recover.restarts_total, run.recovery.budget.spent);
  doc.budget.without_progress = run.recovery.budget.without_progress;
  doc.budget.without_progress_limit = recover.restarts_without_progress;
  fill_slow(doc, run, wall);
  fill_goodput(doc, run);
  if (const auto spend = spend_of(run, wall)) {
    doc.spend = wire::StatusSpend{spend->gpu_hours, {}, spend->left, {}};
    if (spend->budget > 0) doc.spend->budget = spend->budget;
    doc.spend->suffices = spend->suffices();
  }
  fill_spares(doc, state, run, now);
  if (state.calendar)
    for (const auto& leaving : supply::leaving_nodes(*state.calendar, run, wall))
      doc.leaving.push_back({format_rfc3339(leaving.at), leaving.nodes, leaving.why});
  doc.followers = followers_of(run);
  doc.alerts = alerts_of(state, run.policy.run);
  return doc;
}

void lay_over(wire::StatusDocument& doc, const wire::Beat& beat, Duration age) {
  const bool moving = doc.state == "starting" || doc.state == "training" || doc.state == "suspect";
  if (!moving || beat.attempt.value != doc.attempt) return;
  doc.phase = stoker::name_of(beat.phase);
  doc.progress_age_s = static_cast<double>(beat.progress_age_ms) / 1e3 + to_seconds(age);
  if (beat.iteration_max.value < doc.iteration) return;
  const std::uint64_t before = std::exchange(doc.iteration, beat.iteration_max.value);
  doc.total = std::max(doc.total, beat.total);
  doc.consumed_samples = std::max(doc.consumed_samples, beat.consumed_samples);
  if (beat.loss && std::isfinite(*beat.loss)) doc.loss = beat.loss;
  if (std::isfinite(beat.tflops)) doc.tflops = beat.tflops;
  if (std::isfinite(beat.learning_rate)) doc.learning_rate = beat.learning_rate;
  if (beat.iteration_ms.count > 0 && std::isfinite(beat.iteration_ms.p50))
    doc.step_s = beat.iteration_ms.p50 / 1e3;
  shorten(doc, before);
}

namespace {

// Of an alert its kind, so that a story can be written from what was published alone.
std::string alert_words(const Action& action) {
  const auto* alert = std::get_if<SendAlert>(&action);
  if (alert == nullptr) return "";
  return fmt::format(" {}{}", alert->alert_kind, alert->resolved ? " resolved" : "");
}

}  // namespace

wire::PublishedEvent published_event(const JournalRow& row) {
  wire::PublishedEvent out;
  out.seq = row.seq.value;
  out.time = format_rfc3339(row.event.wall, true);
  out.run = row.event.run.text;
  out.kind = kind_of(row.event.body);
  if (row.decision.from != row.decision.to)
    out.decision = row.decision.from + " -> " + row.decision.to;
  if (row.decision.rejected) out.decision = "rejected";
  out.reason = row.decision.reason;
  for (const Intent& intent : row.intents)
    out.actions.push_back(fmt::format("{} {}{}", kind_of(intent.action), intent.key.text,
                                      alert_words(intent.action)));
  out.event = without_secrets(row.event.body);
  return out;
}

}  // namespace stoker::core
