// The ladder: from a failure to the next rung.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

constexpr Duration kRepeatAfter = 30s;   // a command without an answer is written again
constexpr Duration kCancelRepeat = 60s;  // a cancel whose job still lives is sent again

bool contains(const std::vector<NodeName>& nodes, const NodeName& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

void spend(Turn& turn, const Failure& failure) {
  RunState& run = turn.r();
  if (run.live) run.live->failed = run.live->attempt;
  note_incident(turn, failure.kind);
  if (run.recovery.verdict) run.recovery.failed_of = run.recovery.verdict->failure_class;
  run.asked.save.reset();
  if (failure.free) return;
  Budget& budget = run.recovery.budget;
  ++budget.spent;
  ++budget.without_progress;
  ++budget.restarts;
}

std::string note_nodes(Turn& turn, const Failure& failure) {
  std::string text;
  for (const NodeName& node : failure.nodes)
    text += "; " + accuse_node(turn, node, evidence_of(turn, failure.kind, failure.evidence),
                               failure.strong);
  return text;
}

std::vector<NodeName> excluded_among(const Turn& turn, std::vector<NodeName> nodes) {
  const auto excluded = excluded_nodes(turn.site.ledger, turn.now());
  std::erase_if(nodes, [&](const NodeName& node) { return !contains(excluded, node); });
  return nodes;
}

std::string in_which_allocation(const std::vector<NodeName>& bad, bool fresh) {
  if (!bad.empty())
    return fmt::format(" without {}, which this allocation cannot spare", nodes_text(bad));
  return fresh ? " in a fresh allocation" : "";
}

// Excluded nodes that the next attempt would have to run on, while the next task goes without
// them: with bad hardware, or `failed` although they were excluded before.
std::vector<NodeName> bad_nodes_inside(const Turn& turn, const std::vector<NodeName>& failed,
                                       const std::vector<NodeName>& without) {
  std::vector<NodeName> bad;
  const auto avoided = supply::avoided_nodes(turn, supply::size_for(turn).active);
  for (const NodeName& node : excluded_nodes(turn.site.ledger, turn.now())) {
    if (!contains(turn.r().live->nodes, node) || contains(without, node) ||
        !contains(avoided, node))
      continue;
    const auto& record = turn.site.ledger.nodes.at(node).record;
    if ((record && record->hardware) || contains(failed, node)) bad.push_back(node);
  }
  return bad;
}

}  // namespace

void note_incident(Turn& turn, const std::string& kind) {
  RunState& run = turn.r();
  if (!run.recovery.incident)
    run.recovery.incident =
        Incident{kind, turn.now(), turn.event.wall, run.health.progress.iteration,
                 run.health.checkpoint.iteration};
}

bool can_restart_inside(const Turn& turn) {
  const RunState& run = turn.r();
  if (!run.policy.recover.in_allocation || !run.live || !has_agents(run.policy)) return false;
  const LiveGeneration& live = *run.live;
  if (live.goodbye_at || live.lead_silent) return false;
  const supply::Submission* s = running_submission(run);
  if (s != nullptr && std::holds_alternative<supply::Ending>(s->state)) return false;
  return live.nodes.size() >= live.lost.size() + supply::size_for(turn).active;
}

std::vector<NodeName> unusable_inside(const Turn& turn, const std::vector<NodeName>& suspects) {
  const LiveGeneration& live = *turn.r().live;
  const std::uint32_t active = supply::size_for(turn).active;
  std::vector<NodeName> out = live.lost;
  const auto take = [&](const std::vector<NodeName>& nodes) {
    for (const NodeName& node : nodes)
      if (contains(live.nodes, node) && !contains(out, node) &&
          live.nodes.size() > out.size() + active - 1 && live.nodes.size() - out.size() > active)
        out.push_back(node);
  };
  take(suspects);
  take(excluded_nodes(turn.site.ledger, turn.now()));
  if (live.nodes.size() > out.size() + active)  // the remainder shows which node is slow
    take(bisected_out(turn.r(), live.nodes.size() - out.size() - active));
  std::sort(out.begin(), out.end());
  return out;
}

void restart_inside(Turn& turn, const std::string& failure, const std::string& sentence) {
  RunState& run = turn.r();
  ++run.asked.control.restart;
  run.asked.control.restart_of = run.live ? run.live->attempt : Attempt{};
  set_level(run, wire::Level::Run);
  training::Recovering next;
  next.rung = training::Rung::InAllocation;
  next.failure = failure;
  next.since = turn.now();
  next.repeat_at = turn.now() + kRepeatAfter;
  next.give_up_at = turn.now() + kRestartBound;
  turn.go(next, Trigger::Fails, sentence);
  write_control(turn, sentence);
}

void next_task(Turn& turn, const std::string& failure, const std::string& sentence, Attempt of) {
  RunState& run = turn.r();
  training::Recovering next;
  next.rung = training::Rung::NextTask;
  next.failure = failure;
  next.since = turn.now();
  next.repeat_at = turn.now() + kCancelRepeat;
  next.give_up_at = next.repeat_at;
  turn.go(next, Trigger::Fails, sentence);
  supply::update_exclusions(turn);
  if (run.live && !run.live->goodbye_at) {
    set_level(run, wire::Level::LeaveNow, of);
    write_control(turn, sentence);
  }
  if (!turn.blind()) cancel_task(turn);
}

void recover(Turn& turn, const Failure& seen) {
  RunState& run = turn.r();
  if (finished_by_file(run))
    return finish(turn, fmt::format("{}; {} exists, so the training is finished", seen.evidence,
                                    run.policy.train.finished.file));
  run.recovery.failed_signal = seen.signal;
  const Failure failure = with_memory(run, with_verdict(run, seen));
  if (run.live)
    for (const NodeName& node : failure.lost)
      if (!contains(run.live->lost, node)) run.live->lost.push_back(node);
  const auto again = excluded_among(turn, failure.nodes);
  std::string nodes = note_nodes(turn, failure);
  spend(turn, failure);
  nodes += acquit_accused(turn, failure.nodes);
  const auto tell = [&] {
    raise(turn, {Severity::Warning, AlertKind::named(failure.kind), failure.evidence,
                 command_text(turn.name(), "why", "--last 5"), ""});
  };
  if (!failure.why_hold.empty())
    return hold(turn, {"no_restart_helps", failure.evidence + nodes, failure.why_hold, {}});
  if (const auto loop = signals::crash_loop(run.recovery.budget, run.policy.recover)) {
    return hold(turn, {"crash_loop",
                       fmt::format("{}{}; {}", failure.evidence, nodes, *loop),
                       "read the last lines of the ranks' logs and fix the cause",
                       {}});
  }
  if (is_overtaken(turn)) {
    turn.say(
        fmt::format("{}{}; its agents have restarted the ranks since", failure.evidence, nodes));
    return tell();
  }
  const std::uint32_t limit = run.policy.recover.restarts_without_progress;
  const bool last_chance = limit >= 2 && run.recovery.budget.without_progress == limit;
  const bool inside = failure.inside && can_restart_inside(turn);
  std::vector<NodeName> without, bad;
  if (inside) {
    without = unusable_inside(turn, failure.strong ? failure.nodes : std::vector<NodeName>{});
    bad = bad_nodes_inside(turn, again, without);
  }
  if (inside && bad.empty() && !last_chance) {
    run.asked.control.exclude = without;
    restart_inside(turn, failure.kind,
                   fmt::format("{}{}; restarting the ranks inside the allocation{}, attempt {}; {}",
                               failure.evidence, nodes,
                               without.empty() ? "" : " without " + nodes_text(without),
                               run.live->attempt.value + 1, budget_text(run)));
  } else {
    next_task(
        turn, failure.kind,
        fmt::format("{}{}; ending the task so that the next one resumes{}; {}", failure.evidence,
                    nodes, in_which_allocation(bad, inside && last_chance), budget_text(run)));
  }
  tell();
}

void count_progress(RunState& run, Iteration iteration, Instant now) {
  Budget& budget = run.recovery.budget;
  if (iteration <= budget.best) return;
  budget.best = iteration;
  budget.without_progress = 0;
  run.recovery.accused.clear();
  run.recovery.disk_full = 0;
  run.recovery.refused = 0;
  run.jobs.failed_submits = 0;
  const RecoverPolicy& policy = run.policy.recover;
  const Duration price = policy.refill / std::max(1u, policy.restarts_total);
  if (budget.spent == 0 || budget.earned_at == Instant{} || price <= 0ns) {
    budget.earned_at = now;
    return;
  }
  const auto earned = (now - budget.earned_at) / price;
  if (earned <= 0) return;
  budget.spent -=
      std::min(budget.spent,
               static_cast<std::uint32_t>(std::min<std::int64_t>(earned, std::int64_t{1} << 20)));
  budget.earned_at += earned * price;
}

}  // namespace stoker::core
