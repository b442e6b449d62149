// A step change: reported, its node named where compute times show it, searched for by bisection
// where they do not.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/save_interval.hpp"
#include "core/sentence.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

constexpr Duration kUnknownStart = 10min;  // of a start, while none was seen

Duration usual(const RunState& run, wire::Phase phase, Duration unknown) {
  const auto found = run.health.phases.find(std::string(stoker::name_of(phase)));
  if (found == run.health.phases.end()) return unknown;
  return found->second.durations.quantile(500).value_or(unknown);
}

void accuse(Turn& turn, const NodeName& node, const std::string& text) {
  turn.say(accuse_node(turn, node, evidence_of(turn, "slow", text), true));
  supply::update_exclusions(turn);
  raise(turn, {Severity::Warning, "node_fault", fmt::format("{} is slow: {}", node.text, text),
               fmt::format("stoker nodes {}", turn.name().text), node.text});
}

std::string worth_text(const RunState& run, WallTime wall) {
  const auto worth = restart_worth(run, wall);
  if (!worth || worth->gain <= 0ns) return "";
  return fmt::format(
      "; a dedicated restart costs {} and gains {}{} until the next restart that is due anyway: {}",
      format_duration(worth->cost),
      worth->chance < 1 ? fmt::format("on average, at a chance of {:.0f} %, ", 100 * worth->chance)
                        : "",
      format_duration(worth->gain), worth->gain > worth->cost ? "it pays" : "it does not pay");
}

// True: one node is left, and convicted, or none is.
bool end_search(Turn& turn) {
  RunState& run = turn.r();
  if (run.recovery.bisect.suspects.size() > 1) return false;
  const Bisect over = std::move(run.recovery.bisect);
  run.recovery.bisect = {};
  if (over.suspects.empty()) {
    if (run.health.speed.slow) run.health.speed.slow->no_single_node = true;
  } else {
    accuse(turn, over.suspects.front(),
           fmt::format("of {} nodes the one in every slow attempt and in no fast one, in {} starts",
                       over.of, over.rounds.size()));
  }
  return true;
}

void begin_search(Turn& turn) {
  RunState& run = turn.r();
  const signals::Slow& slow = *run.health.speed.slow;
  if (const auto node = signals::slow_node(slow)) {
    accuse(turn, *node,
           fmt::format("its rank computes longest since iteration {}", slow.from.value));
    const auto out = excluded_nodes(turn.site.ledger, turn.now());
    if (std::find(out.begin(), out.end(), *node) == out.end())
      return;  // the cap, as it was reported
    return turn.say("the next start leaves it out" + worth_text(run, turn.event.wall));
  }
  std::vector<NodeName> nodes = run.live->attempt_nodes;
  std::sort(nodes.begin(), nodes.end());
  if (nodes.size() < 2) return;
  if (run.recovery.bisect.suspects.empty()) {
    run.recovery.bisect = {};
    run.recovery.bisect.of = static_cast<std::uint32_t>(nodes.size());
    run.recovery.bisect.from = slow.from;
    run.recovery.bisect.suspects = nodes;
  } else {
    turn.say(observe(run.recovery.bisect, slow.from, nodes, true));
    if (end_search(turn)) return;
  }
  const auto out = bisected_out(run, spare_nodes(run));
  turn.say(fmt::format(
      "any of {} may slow it down; {}{}",
      count_text(static_cast<std::uint32_t>(run.recovery.bisect.suspects.size()), "node"),
      out.empty() ? "no node can be spared to search for it"
                  : fmt::format("the next start that is due anyway leaves out {}", nodes_text(out)),
      worth_text(run, turn.event.wall)));
}

// It is still slow, though the nodes that were convicted for it are gone: another may be guilty
// too.
void search_again(Turn& turn) {
  RunState& run = turn.r();
  if (!run.health.speed.slow || run.health.speed.slow->no_single_node) return;
  const std::vector<NodeName> out = excluded_nodes(turn.site.ledger, turn.now());
  const auto& nodes = run.live->attempt_nodes;
  if (std::find_first_of(nodes.begin(), nodes.end(), out.begin(), out.end()) != nodes.end()) return;
  turn.say(fmt::format("still slow since iteration {}, and no node in it is accused",
                       run.health.speed.slow->from.value));
  begin_search(turn);
}

}  // namespace

std::size_t spare_nodes(const RunState& run) {
  if (!run.live) return run.policy.scheduler.spares;
  const std::size_t used = run.live->attempt_nodes.size() + run.live->lost.size();
  return run.live->nodes.size() > used ? run.live->nodes.size() - used : 0;
}

std::vector<NodeName> bisected_out(const RunState& run, std::size_t free) {
  return next_out(run.recovery.bisect, free);
}

std::optional<RestartWorth> restart_worth(const RunState& run, WallTime wall) {
  if (!run.health.speed.slow || !run.live) return std::nullopt;
  const double share = run.health.speed.slow->share();
  RestartWorth worth;
  worth.cost = usual(run, wire::Phase::Startup, kUnknownStart) + usual(run, wire::Phase::Load, 0s) +
               from_seconds(run.health.checkpoint.longest_seconds);
  Duration rest = run.policy.scheduler.time_limit;
  if (const supply::Submission* s = running_submission(run))
    if (const auto task = s->tasks.find(running_task(*s));
        task != s->tasks.end() && task->second.ends_at)
      rest = *task->second.ends_at - wall;
  if (run.health.progress.total > run.health.progress.iteration.value) {
    const double left =
        static_cast<double>(run.health.progress.total - run.health.progress.iteration.value);
    rest = std::min(rest, from_seconds(std::min(1e8, left * run.health.speed.slow->now_ms / 1000)));
  }
  rest = std::min(rest, failure_interval(run));
  const std::size_t free = spare_nodes(run);
  worth.chance = 1;
  if (!run.recovery.bisect.suspects.empty())
    worth.chance = static_cast<double>(bisected_out(run, free).size()) /
                   static_cast<double>(run.recovery.bisect.suspects.size());
  worth.gain = from_seconds(to_seconds(std::max<Duration>(0s, rest - worth.cost)) * share /
                            (1 + share) * worth.chance);
  return worth;
}

void watch_slow(Turn& turn, const Digest& digest) {
  RunState& run = turn.r();
  if (digest.iteration_ms.count == 0) return;
  const wire::Beat& beat = digest.last;
  signals::SpeedPoint point{turn.now(),
                            beat.iteration_max,
                            digest.iteration_ms.p50,
                            run.health.progress.tflops,
                            beat.consumed_samples,
                            beat.consumed_tokens,
                            run.live->world_size,
                            beat.slowest};
  const signals::SpeedVerdict v = signals::watch_speed(run.health.speed, point);
  if (v.attempt_slow && !run.recovery.bisect.suspects.empty()) {
    turn.say(
        observe(run.recovery.bisect, beat.iteration_max, run.live->attempt_nodes, *v.attempt_slow));
    end_search(turn);
  } else if (v.attempt_slow.value_or(false)) {
    search_again(turn);
  }
  if (v.news == signals::SpeedNews::Slower) {
    turn.say(v.evidence);
    begin_search(turn);
    raise(turn, {Severity::Warning, "slow", fmt::format("{}: {}", turn.name().text, v.evidence),
                 command_text(turn.name(), "bisect"), ""});
  } else if (v.news == signals::SpeedNews::AsUsual) {
    turn.say(v.evidence);
    resolve(turn, "slow");
    if (!v.attempt_slow) run.recovery.bisect = {};  // by itself: what comes later is something else
  }
}

}  // namespace stoker::core
