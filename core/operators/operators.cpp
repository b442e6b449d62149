// What people ask, by command or by switch file. A verb that cannot be carried out is rejected with
// the reason; one that can names who asked in the decision. To add one: a function here and its
// line in on_operator; its name in daemon/loop/daemon_requests.cpp; a file in cli/commands/.
#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/nodes/drain.hpp"
#include "core/operators/forget.hpp"
#include "core/operators/silences.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/rollback.hpp"
#include "core/recover/save_interval.hpp"
#include "core/sentence.hpp"
#include "core/signals/probe.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {
namespace {

std::optional<std::uint64_t> number(const OperatorAsked& asked, const std::string& key) {
  const auto found = asked.arguments.find(key);
  if (found == asked.arguments.end()) return std::nullopt;
  std::uint64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [at, error] = std::from_chars(found->second.data(), end, value);
  if (error != std::errc{} || at != end) return std::nullopt;
  return value;
}

// The name of an argument that is no number where one must be; "" = all are good.
std::string bad_number(const OperatorAsked& asked) {
  for (const char* key : {"at-iteration", "skip-samples"})
    if (asked.arguments.contains(key) && !number(asked, key)) return key;
  const auto scale = asked.arguments.find("lr-scale");
  double value = 0;
  if (scale == asked.arguments.end()) return "";
  const char* end = scale->second.data() + scale->second.size();
  const auto [at, error] = std::from_chars(scale->second.data(), end, value);
  return error == std::errc{} && at == end ? "" : scale->first;
}

bool has(const OperatorAsked& asked, const std::string& key) {
  const auto found = asked.arguments.find(key);
  return found != asked.arguments.end() && found->second != "false";
}

// Saving may mean exiting: a script that saves when it is asked to end. Under agents the lead knows
// whether the ranks have heartbeat pages, and answers with the reason when they have not.
bool may_save_when_asked(const RunPolicy& policy) {
  return has_agents(policy) || can_save(policy) || script::leaves_when_told(policy);
}

void on_save(Turn& turn, const OperatorAsked& asked) {
  RunState& run = turn.r();
  const std::string sentence = fmt::format("save requested by {}", who_text(asked));
  if (!may_save_when_asked(run.policy))
    return turn.reject(
        fmt::format("{}; refused: this training has no train.save_signal{}, so "
                    "stoker cannot request a save",
                    sentence,
                    run.policy.train.kill_switch.empty()
                        ? " and no train.kill_switch"
                        : " and its kill switch would end the next task of its array too"));
  if (const auto at = number(asked, "at-iteration")) {
    run.asked.save_at = Iteration(*at);
    return turn.say(fmt::format("{}; at iteration {}", sentence, *at));
  }
  if (!turn.active() || !run.live || turn.in<training::Stopping>() != nullptr)
    return turn.reject(fmt::format("{}; no training is running (the run is {})", sentence,
                                   state_name(run.training)));
  const bool sure = can_save(run.policy) || !has_agents(run.policy);
  ask_save(turn, asked.by,
           sure ? sentence
                : sentence +
                      "; it needs a heartbeat page of the training, \"stoker events\" has the "
                      "agents' answer");
}

void plan_stop(Turn& turn, const OperatorAsked& asked, const std::string& sentence) {
  RunState& run = turn.r();
  PlannedStop planned;
  planned.by = asked.by;
  planned.reason = asked.reason;
  if (const auto at = asked.arguments.find("at"); at != asked.arguments.end()) {
    const auto time = parse_rfc3339(at->second);
    if (!time) return turn.reject(fmt::format("{}; {}", sentence, time.error().message()));
    planned.at = turn.now() + (*time - turn.event.wall);
    turn.say(fmt::format("{}; at {}", sentence, at->second));
  } else if (const auto n = number(asked, "at-iteration")) {
    planned.at_iteration = Iteration(*n);
    turn.say(fmt::format("{}; at iteration {}", sentence, *n));
  } else {
    planned.after_checkpoint = true;
    turn.say(fmt::format("{}; after the next checkpoint", sentence));
  }
  run.asked.planned_stop = planned;
  cancel_waiting(turn);
}

void on_stop(Turn& turn, const OperatorAsked& asked) {
  const std::string sentence = fmt::format("{} requested by {}", asked.verb, who_text(asked));
  const bool kill = asked.verb == "kill" || has(asked, "now");
  const bool later = asked.arguments.contains("at") || asked.arguments.contains("at-iteration") ||
                     has(asked, "after-checkpoint");
  const bool running =
      turn.kind() == TrainingKind::Training || turn.kind() == TrainingKind::Starting;
  if (!kill && later && (running || asked.arguments.contains("at")))
    return plan_stop(turn, asked, sentence);
  stop_now(turn, kill ? wire::Level::LeaveNow : wire::Level::SaveAndLeave, asked.by, sentence);
}

void on_pause(Turn& turn, const OperatorAsked& asked) {
  RunState& run = turn.r();
  if (turn.kind() == TrainingKind::Finished || turn.kind() == TrainingKind::Stopped)
    return turn.reject(fmt::format("pause requested by {}; the run is {}", who_text(asked),
                                   state_name(run.training)));
  run.asked.paused = true;
  turn.say(
      fmt::format("pause requested by {}: nothing is submitted until `resume`, queued tasks are "
                  "cancelled{}",
                  who_text(asked), turn.active() ? ", the running task continues" : ""));
  cancel_waiting(turn);
  if (auto* held = turn.in<training::Held>()) held->retry_at.reset();
}

void on_resume(Turn& turn, const OperatorAsked& asked) {
  RunState& run = turn.r();
  const std::string sentence = fmt::format("resume requested by {}", who_text(asked));
  const bool was_paused = run.asked.paused;
  const bool watched = run.conditions.observe_only;
  run.asked.paused = false;
  run.conditions.observe_only = false;
  run.asked.planned_stop.reset();
  const bool ending = is_over(run.training) || turn.kind() == TrainingKind::Stopping;
  if (ending && turn.kind() != TrainingKind::Finished) lift_end(turn, run.newest);
  run.jobs.accepted.clear();
  if (has(asked, "as-is")) run.recovery.trail.as_is = true;
  if (was_paused || watched) resolve(turn, "quarantined");
  if (run.live || turn.kind() == TrainingKind::Queued) run.asked.resumed_live_at = turn.now();
  training::reactions_of(run).resume(turn, sentence);
}

void on_restart(Turn& turn, const OperatorAsked& asked) {
  RunState& run = turn.r();
  const std::string sentence = fmt::format("restart requested by {}", who_text(asked));
  if (!turn.active()) {
    if (turn.kind() == TrainingKind::Held || turn.kind() == TrainingKind::Stopped)
      return on_resume(turn, asked);
    return turn.reject(fmt::format("{}; no training is running (the run is {})", sentence,
                                   state_name(run.training)));
  }
  if (turn.in<training::Stopping>() != nullptr)
    return turn.reject(fmt::format("{}; the training is already exiting", sentence));
  if (run.live) run.live->failed = run.live->attempt;
  run.recovery.incident = Incident{"restart", turn.now(), turn.event.wall,
                                   run.health.progress.iteration, run.health.checkpoint.iteration};
  if (can_restart_inside(turn)) {
    run.asked.control.exclude = unusable_inside(turn, {});
    restart_inside(turn, "restart",
                   fmt::format("{}; restarting the ranks inside the allocation {}", sentence,
                               where_text(run)));
  } else {
    next_task(turn, "restart",
              fmt::format("{}; ending the task so that the next one resumes", sentence));
  }
}

// Where the losses went wrong, if they did.
std::optional<Iteration> onset_of(const RunState& run) {
  if (run.health.loss.bad_from) return run.health.loss.bad_from;
  if (run.health.loss.spike) return run.health.loss.spike->onset;
  return std::nullopt;
}

void on_rollback(Turn& turn, const OperatorAsked& asked) {
  RunState& run = turn.r();
  const std::string sentence = fmt::format("rollback requested by {}", who_text(asked));
  if (turn.kind() == TrainingKind::Finished)
    return turn.reject(fmt::format("{}; the run is finished", sentence));
  if (!has_agents(run.policy)) return script::roll_back(turn, asked, sentence);
  auto to = number(asked, "to");
  RollbackPlan plan;
  const auto word = asked.arguments.find("to");
  if (word != asked.arguments.end() && word->second == "auto") {  // as the policy would
    const auto onset = onset_of(run);
    if (!onset)
      return turn.reject(
          fmt::format("{}; no loss spike is known that --to auto could go back from", sentence));
    plan = plan_rollback(run, *onset);
    if (!plan.why_not.empty()) return turn.reject(fmt::format("{}; {}", sentence, plan.why_not));
    to = plan.to.value;
  }
  if (!to) return turn.reject(fmt::format("{}; --to ITERATION is missing", sentence));
  const auto known = run.health.checkpoint.known.find(*to);
  if (known == run.health.checkpoint.known.end()) {
    std::string have;
    for (auto it = run.health.checkpoint.known.rbegin();
         it != run.health.checkpoint.known.rend() && have.size() < 60; ++it)
      have += fmt::format("{}{}", have.empty() ? "" : ", ", it->first);
    return turn.reject(
        fmt::format("{}; there is no checkpoint of iteration {} in this run's "
                    "ancestry (newest: {})",
                    sentence, *to, have.empty() ? "none" : have));
  }
  double lr_scale = plan.lr_scale;
  if (const auto found = asked.arguments.find("lr-scale"); found != asked.arguments.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), lr_scale);
  if (!(lr_scale > 0) || lr_scale > 100)
    return turn.reject(fmt::format("{}; --lr-scale must be above 0 and at most 100", sentence));
  const std::uint64_t skip = number(asked, "skip-samples").value_or(plan.skip);
  if (skip > wire::kMostSkipped)
    return turn.reject(
        fmt::format("{}; --skip-samples must be at most {}", sentence, wire::kMostSkipped));
  if (!run.asked.control.halt.empty()) lift_end(turn, run.newest);
  const std::string text = fmt::format(
      "{}; rolling back from iteration {} to {}{}{}", sentence, run.health.progress.iteration.value,
      *to, lr_scale == 1.0 ? "" : fmt::format(", learning rate x {}", lr_scale),
      skip == 0 ? "" : fmt::format(", skipping {} samples", skip));
  go_back(turn, {Iteration(*to), known->second, lr_scale, skip, ""}, asked.by, text);
  if (turn.kind() == TrainingKind::Held || turn.kind() == TrainingKind::Stopped)
    on_resume(turn, asked);
}

void on_nodes(Turn& turn, const OperatorAsked& asked) {
  const bool exclude = asked.verb == "exclude";
  if (asked.nodes.empty()) return turn.reject("no node was named");
  Duration length = turn.run == nullptr ? 24h : turn.r().policy.recover.exclude_for;
  if (const auto found = asked.arguments.find("for"); found != asked.arguments.end()) {
    const auto parsed = parse_duration(found->second);
    if (!parsed) return turn.reject(parsed.error().message());
    length = *parsed;
  }
  turn.say(fmt::format("{} {} by {}{}", nodes_text(asked.nodes),
                       exclude ? "excluded" : "included again", who_text(asked),
                       exclude ? fmt::format(", for {}", format_duration(length)) : ""));
  for (const NodeName& node : asked.nodes) {
    Evidence evidence;
    evidence.at = turn.now();
    evidence.wall = turn.event.wall;
    evidence.run = turn.event.run;
    evidence.kind = "operator";
    evidence.text = fmt::format("{} by {}", asked.verb, who_text(asked));
    if (exclude)
      exclude_node(turn.site.ledger, node, evidence, length);
    else
      include_node(turn.site.ledger, node);
  }
  RunState* const own = turn.run;
  for (auto& [name, run] : turn.site.runs) {
    turn.run = &run;
    for (const NodeName& node : exclude ? std::vector<NodeName>{} : asked.nodes) {
      for (const AlertKind kind : {AlertKind("node_convicted"), AlertKind("drain_refused")})
        resolve(turn, kind, node.text);
      lift_drain(turn, node);
    }
    supply::update_exclusions(turn);
  }
  turn.run = own;
}

void on_stacks(Turn& turn, const OperatorAsked& asked) {
  RunState& run = turn.r();
  if (!has_agents(run.policy)) {
    if (!run.live || running_submission(run) == nullptr)
      return turn.reject(fmt::format("stacks requested by {}; no job of it runs", who_text(asked)));
    turn.say(fmt::format("stacks requested by {}; probing {}", who_text(asked),
                         job_text(run.live->job)));
    return probe::ask(turn);
  }
  if (!run.live || run.live->goodbye_at)
    return turn.reject(fmt::format("stacks requested by {}; no agents are there", who_text(asked)));
  ++run.asked.control.stacks;
  turn.say(fmt::format("stacks requested by {}", who_text(asked)));
  write_control(turn, "stacks");
}

// A reload has no person who reads what RUN.yaml says: what another user may have written is not
// taken.
void on_reload_refused(Turn& turn, const OperatorAsked& asked) {
  const auto why = asked.arguments.find("refused");
  const std::string text = why == asked.arguments.end() ? "" : why->second;
  turn.say(fmt::format("reload requested by {}; the policy stays: {}", asked.by, text));
  raise(turn, {Severity::Warning, "policy_refused",
               fmt::format("{} keeps its policy: {}", turn.name().text, text),
               "stoker run " + turn.r().policy.config_path, ""});
}

}  // namespace

void on_operator(Turn& turn, const OperatorAsked& asked) {
  if (asked.verb == "exclude" || asked.verb == "include") return on_nodes(turn, asked);
  if (asked.verb == "silence") return on_silence(turn, asked);
  const bool by_file = asked.via == "switch file";
  if (asked.verb == "ack" && !by_file) {
    const auto id = asked.arguments.find("id");
    return acknowledge(turn, id == asked.arguments.end() ? "" : id->second, asked.by, asked.reason);
  }
  if (turn.run == nullptr)
    return turn.reject(fmt::format("no run \"{}\" is under supervision", turn.event.run.text));
  if (const std::string key = bad_number(asked); !key.empty())
    turn.reject(
        fmt::format("{} requested by {}; {} must be a number", asked.verb, who_text(asked), key));
  else if (asked.verb == "ack")
    acknowledge_run(turn, asked.by + " (by switch file)", asked.reason);
  else if (asked.verb == "save")
    on_save(turn, asked);
  else if (asked.verb == "stop" || asked.verb == "kill")
    on_stop(turn, asked);
  else if (asked.verb == "pause")
    on_pause(turn, asked);
  else if (asked.verb == "resume")
    on_resume(turn, asked);
  else if (asked.verb == "restart")
    on_restart(turn, asked);
  else if (asked.verb == "rollback")
    on_rollback(turn, asked);
  else if (asked.verb == "stacks")
    on_stacks(turn, asked);
  else if (asked.verb == "forget")
    on_forget(turn, asked);
  else if (asked.verb == "rename")
    on_rename(turn, asked);
  else if (asked.verb == "reload")
    on_reload_refused(turn, asked);
  else
    turn.reject(fmt::format("unknown run command \"{}\"", asked.verb));
  if (by_file) {  // as its author spelled it: STOP and stop are two files
    resolve(turn, "switch_refused");
    const auto file = asked.arguments.find("file");
    turn.act(ConsumeSwitch{file == asked.arguments.end() ? asked.verb : file->second});
  }
}

}  // namespace stoker::core
