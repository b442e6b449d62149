// Events of the whole site: the daemon, the scheduler's eyesight, nodes, disks; and runs put under
// supervision.
#include <algorithm>
#include <fmt/format.h>

#include "common/shell_word.hpp"
#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {
namespace {

// Deadlines for a report start again: while the daemon was away no report was read.
// Ages of progress do not: the nodes' own clocks measured them.
void count_anew(RunState& run, Instant now, Duration away) {
  training::reactions_of(run).daemon_back(run, now, away);
  for (auto& [token, s] : run.jobs.supply)
    if (auto* ending = std::get_if<supply::Ending>(&s.state))
      training::put_off(ending->decide_at, now, away);
  if (run.asked.save) training::put_off(run.asked.save->repeat_at, now, away);
  if (run.live) run.live->lead_silent = false;
}

}  // namespace

void on_run_added(Turn& turn, const RunPolicy& policy, const std::string& by, Generation newest) {
  RunState& run = turn.r();
  const bool fresh = run.policy.run.empty();
  const bool same = run.policy == policy;
  run.policy = policy;
  if (fresh) {
    run.since = turn.now();
    run.since_wall = turn.event.wall;
    if (newest.value != 0) lift_end(turn, newest);
    return supply::submit(turn, fmt::format("{} put {} under supervision", by, policy.run.text));
  }
  turn.say(fmt::format("{} took {} up again{}", by, policy.run.text,
                       same ? "" : " with a changed configuration"));
  resolve(turn, "policy_refused");
  if (!same) run.conditions.reservation_seen = false;
  training::reactions_of(run).added_again(turn, same);
}

void on_daemon_started(Turn& turn, const DaemonStarted& started) {
  if (started.epoch < turn.site.epoch)
    return turn.reject(fmt::format("a daemon of epoch {} started, but {} is known: it must not act",
                                   started.epoch.value, turn.site.epoch.value));
  turn.site.build = started.build;
  turn.site.epoch = started.epoch;
  turn.say(fmt::format(
      "stokerd {} started, epoch {}, {}{}", started.build, started.epoch.value,
      started.away > 0ns ? fmt::format("away for {}", format_duration(started.away))
                         : std::string("first start"),
      started.away > 0ns && !started.clean ? ", the previous one did not shut down cleanly" : ""));
  turn.site.blind_since.reset();
  for (auto& [name, run] : turn.site.runs) {
    turn.run = &run;
    count_anew(run, turn.now(), started.away);
    run.conditions.daemon_away = started.away > 0ns;
    resolve(turn, "stale_daemon");
    resolve(turn, "folder_silent");  // this daemon finds out again
    run.conditions.unread_since.reset();
    if (run.live && run.asked.control.generation == run.live->generation &&
        run.asked.control.epoch < started.epoch)
      write_control(turn, "a newer daemon is in charge");  // the agents learn the epoch
  }
  turn.run = nullptr;
}

void on_node_seen(Turn& turn, const NodeSeen& seen) {
  NodeEntry& entry = turn.site.ledger.nodes[seen.node];
  const bool was = entry.usable;
  entry.usable = seen.usable;
  entry.scheduler_state = seen.state;
  entry.scheduler_reason = seen.reason;
  if (was && !seen.usable) {
    if (!entry.excluded_until || *entry.excluded_until <= turn.now())
      note_loss(turn.site.ledger, turn.now());
    turn.say(fmt::format("the scheduler reports {} {}{}", seen.node.text, seen.state,
                         seen.reason.empty() ? "" : fmt::format(" ({})", seen.reason)));
    if (!seen.reason.starts_with(DrainNode::kNote))  // else it was reported with its evidence
      raise(turn,
            {Severity::Warning, "node_down", fmt::format("{} is {}", seen.node.text, seen.state),
             "scontrol show node " + shell_word(seen.node.text), seen.node.text});
  } else if (!was && seen.usable) {
    turn.say(fmt::format("{} is usable again ({})", seen.node.text, seen.state));
    resolve(turn, "node_down", seen.node.text);
  }
  for (auto& [name, run] : turn.site.runs) {
    turn.run = &run;
    if (!seen.usable) resolve(turn, "drain_refused", seen.node.text);
    supply::resize_waiting(turn);
  }
  turn.run = nullptr;
}

void on_blind(Turn& turn, const SchedulerBlind& blind) {
  if (!turn.site.blind_since) turn.site.blind_since = turn.now();
  turn.site.blind_why = blind.why;
  turn.say(
      fmt::format("the scheduler gives no valid answers ({}); unknown is not dead, so stoker "
                  "cancels and submits nothing because of it",
                  blind.why));
  raise(turn,
        {Severity::Warning, "scheduler_blind",
         fmt::format("no valid answer from the scheduler: {}", blind.why), "stoker doctor", ""});
}

void on_sees(Turn& turn) {
  if (!turn.site.blind_since) return;
  turn.say(fmt::format("the scheduler answers again after {}",
                       format_duration(turn.now() - *turn.site.blind_since)));
  turn.site.blind_since.reset();
  turn.site.blind_why.clear();
  for (Retry& retry : turn.site.retries)  // what it did not receive is sent again at once
    if (std::holds_alternative<Cancel>(retry.effect.action) ||
        std::holds_alternative<SetExclusions>(retry.effect.action))
      retry.at = std::min(retry.at, turn.now());
  resolve(turn, "scheduler_blind");
}

// One alert for the run: every member can make new names without end.
void on_switch_refused(Turn& turn, const SwitchRefused& refused) {
  turn.say(fmt::format("the switch file \"{}\" was refused: {}", refused.name, refused.why));
  raise(turn, {Severity::Warning, "switch_refused",
               fmt::format("switch file \"{}\" of {} refused: {}", refused.name, turn.name().text,
                           refused.why),
               fmt::format("ls -l {}/switch", turn.r().policy.directory), ""});
}

void on_quarantined(Turn& turn, const Quarantined& q) {
  const std::string sentence = fmt::format(
      "an input that crashed the daemon twice was quarantined ({}, digest {})", q.what, q.digest);
  turn.say(sentence);
  if (turn.run != nullptr) {
    raise(turn, {Severity::Critical, "quarantined",
                 fmt::format("{} is only observed: {}", turn.name().text, sentence),
                 command_text(turn.name(), "resume", "--reason \"...\""), ""});
    turn.r().conditions.observe_only = true;
  } else {
    raise(turn, {Severity::Critical, "quarantined", sentence, "stoker doctor", ""});
  }
}

}  // namespace stoker::core
