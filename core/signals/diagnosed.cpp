// What the logs say: reported, kept as the verdict of the attempt, and, where it is hardware,
// evidence against its nodes before anything else is started there.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

bool noted_before(const SiteState& site, const NodeName& node, const Evidence& evidence) {
  const auto entry = site.ledger.nodes.find(node);
  if (entry == site.ledger.nodes.end()) return false;
  const auto& known = entry->second.evidence;
  return std::any_of(known.begin(), known.end(), [&](const Evidence& e) {
    return e.kind == evidence.kind && e.text == evidence.text;
  });
}

std::string_view short_name(const NodeName& node) {
  return std::string_view(node.text).substr(0, node.text.find('.'));
}

// Logs name hosts in their own way; an unknown name accuses no node.
std::vector<NodeName> our_nodes(const Turn& turn, const std::vector<NodeName>& named) {
  std::map<std::string_view, std::vector<NodeName>> by_short_name;
  if (named.empty()) return {};
  if (turn.r().live)
    for (const NodeName& node : turn.r().live->nodes)
      by_short_name[short_name(node)].push_back(node);
  for (const auto& [node, entry] : turn.site.ledger.nodes) {
    auto& known = by_short_name[short_name(node)];
    if (std::find(known.begin(), known.end(), node) == known.end()) known.push_back(node);
  }
  std::vector<NodeName> ours;
  for (const NodeName& host : named) {
    const auto found = by_short_name.find(short_name(host));
    if (found == by_short_name.end()) continue;
    ours.insert(ours.end(), found->second.begin(), found->second.end());
    by_short_name.erase(found);  // named twice, it counts once
  }
  return ours;
}

// What the training printed accuses a node when a rank has ended as it would of that; until then it
// is kept as the verdict (with_verdict). Without agents no end of a rank is seen.
bool counts_now(const RunState& run, const Diagnosed& d, bool late) {
  if (d.from_kernel || !has_agents(run.policy)) return true;
  const bool failed = run.live && (late || run.live->failed >= run.live->attempt);
  return failed && explains(d, run.recovery.failed_signal);
}

void accuse(Turn& turn, const Diagnosed& d) {
  const std::string text = d.evidence.empty() ? d.summary : d.evidence.front();
  bool fresh = false;
  for (const NodeName& node : d.exclude) {
    const Evidence evidence = evidence_of(turn, d.failure_class, text);
    if (noted_before(turn.site, node, evidence)) continue;
    fresh = true;
    turn.say(accuse_node(turn, node, evidence, true));
    raise(turn, {Severity::Critical, "node_fault", fmt::format("{}: {}", node.text, d.summary),
                 fmt::format("stoker nodes {}", turn.name().text), node.text});
  }
  if (fresh) supply::update_exclusions(turn);
}

// The exact command that goes back: before the onset where the losses showed one, else to the
// newest checkpoint.
std::string way_back(const RunState& run) {
  Iteration onset(run.health.progress.iteration.value + 1);
  if (run.health.loss.bad_from)
    onset = *run.health.loss.bad_from;
  else if (run.health.loss.spike)
    onset = run.health.loss.spike->onset;
  const RollbackPlan plan = plan_rollback(run, onset);
  return plan.why_not.empty() ? rollback_command(run, plan) : command_text(run.policy.run, "why");
}

}  // namespace

void on_diagnosed(Turn& turn, const Diagnosed& reported) {
  RunState& run = turn.r();
  Diagnosed d = reported;
  d.exclude = our_nodes(turn, reported.exclude);
  const bool late = run.live && d.generation.value != 0 &&
                    (d.generation < run.live->generation ||
                     (d.generation == run.live->generation && d.attempt.value != 0 &&
                      d.attempt < run.live->attempt));
  const bool taken_back = d.failure_class == "healthy";
  if (taken_back) {
    if (!late && run.recovery.verdict)
      turn.say(fmt::format("the training continued after what its logs reported: {}",
                           run.recovery.verdict->summary));
    if (!late && run.recovery.verdict)
      resolve(turn, AlertKind::named(run.recovery.verdict->failure_class));
    if (!late) run.recovery.verdict.reset();
    return;
  }
  turn.say(fmt::format("the logs{} say: {}{}, confidence {:.2f}",
                       late ? fmt::format(" of attempt {}", d.attempt.value) : "", d.summary,
                       d.evidence.empty() ? "" : fmt::format(" ({})", d.evidence.front()),
                       d.confidence));
  if (!d.exclude.empty() && d.confidence >= kSure && counts_now(run, d, late)) accuse(turn, d);
  if (late) return;
  run.recovery.verdict = d;
  if (d.fatal && run.live && run.live->failed >= run.live->attempt) heed_late_verdict(turn);
  if (d.action == RunAction::Rollback && d.confidence >= kSure)
    raise(turn, {Severity::Warning, AlertKind::named(d.failure_class),
                 fmt::format("{}: {}", turn.name().text, d.summary), way_back(run), ""});
}

}  // namespace stoker::core
