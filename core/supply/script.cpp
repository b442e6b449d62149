// What is different without agents.
#include "core/supply/script.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>

#include "core/alerts/alerting.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/resume_files.hpp"
#include "core/sentence.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::script {

void begin(Turn& turn, const supply::Submission& s, const JobSeen& seen) {
  RunState& run = turn.r();
  if (run.live && run.live->token == s.token && run.live->job == seen.job) return;
  LiveGeneration live;
  live.parent = run.newest;
  live.generation = Generation(run.newest.value + 1);
  live.token = s.token;
  live.job = seen.job;
  live.order = s.order;
  live.nodes = live.attempt_nodes = seen.nodes;
  live.attempt = Attempt(1);
  live.world_size = static_cast<std::uint32_t>(seen.nodes.size()) * run.policy.train.ranks_per_node;
  live.best = run.recovery.budget.best;
  live.attempt_at = turn.now();
  run.newest = live.generation;
  run.live = std::move(live);
  run.jobs.may_write = false;
  run.recovery.verdict.reset();  // of the job before
  begin_numbers(turn, Iteration{});
  run.health.progress.phase = wire::Phase::Startup;
  run.health.progress.at = run.health.progress.phase_since = turn.now();
  turn.say(fmt::format("generation {} of {} is a script without agents: its logs are followed",
                       run.newest.value, job_text(seen.job)));
}

namespace {

// The next task of an array starts before the switch file is away, and would leave as well.
bool burns_next(const RunPolicy& policy) {
  return policy.scheduler.array_tasks > 1;
}

}  // namespace

bool leaves_when_told(const RunPolicy& policy) {
  if (!policy.train.save_signal.empty()) return true;
  return !policy.train.kill_switch.empty() && !burns_next(policy);
}

bool ask_save(Turn& turn) {
  RunState& run = turn.r();
  if (!run.live || run.policy.train.save_signal.empty()) return false;
  turn.act(SignalJob{run.live->token, run.live->job, run.policy.train.save_signal});
  return true;
}

void ask_to_leave(Turn& turn, wire::Level level) {
  const TrainPolicy& train = turn.r().policy.train;
  if (level != wire::Level::SaveAndLeave) return cancel_task(turn);
  const auto* stopping = turn.in<training::Stopping>();
  const bool goes_on = stopping != nullptr && stopping->goal == training::Goal::Next;
  if (!train.kill_switch.empty() && !(goes_on && burns_next(turn.r().policy))) {
    turn.say(fmt::format("setting its switch file {}", train.kill_switch));
    return turn.act(SetKillSwitch{train.kill_switch, true});
  }
  if (ask_save(turn))
    return turn.say(fmt::format("it receives {} and has {} to save", train.save_signal,
                                format_duration(patience(turn.r().policy))));
  turn.say("it has neither a switch file nor a save signal, so stoker cancels it");
  cancel_task(turn);
}

void on_kill_switch(Turn& turn, const SetKillSwitch& kill, const std::string& detail) {
  if (!detail.starts_with(SetKillSwitch::kPersons)) return;
  const std::string what = fmt::format("the kill switch {} was {}", kill.path, detail);
  const auto& made = turn.r().jobs.supply;
  const bool submits = std::any_of(made.begin(), made.end(), [](const auto& entry) {
    return std::holds_alternative<supply::Intended>(entry.second.state);
  });  // it fails for the same reason, and says so
  const bool begins =
      turn.in<training::Queued>() != nullptr || turn.in<training::Starting>() != nullptr;
  if (kill.there || submits || !begins) return turn.say(what);
  hold(turn, {"kill_switch", what, fmt::format("remove {}", kill.path), {}});
}

Duration patience(const RunPolicy& policy) {
  return policy.hang.checkpoint;
}

std::optional<std::string> finished(const RunState& run, const JobSeen& end) {
  const FinishedWhen& when = run.policy.train.finished;
  const std::uint64_t at = run.health.progress.iteration.value;
  if (finished_by_file(run)) return fmt::format("{} is there", when.file);
  if (end.state != JobState::Completed || end.exit_code != 0 || end.forgotten) return std::nullopt;
  if (when.exit_zero) return "it ended with exit code 0";
  const std::uint64_t last = last_iteration(run);
  if (!when.file.empty() || last == 0) return std::nullopt;
  if (at >= last) return fmt::format("it reached iteration {} of {}", at, last);
  // A job that begins where the training is over exits at once, and its log shows no iteration.
  const std::uint64_t best = run.recovery.budget.best.value;
  if (at > 0 || best < last) return std::nullopt;
  return fmt::format("it had nothing left to do: iteration {} of {} was reached before", best,
                     last);
}

namespace {

std::string checkpoints_of(const RunPolicy& policy) {
  const std::string& folder = policy.checkpoints.directory;
  return folder.starts_with("/") ? folder : policy.directory + "/" + folder;
}

SetResumePoint point_of(const RunPolicy& policy, Iteration to, bool write) {
  return {policy.checkpoints.format, checkpoints_of(policy), to, write};
}

// Why this script cannot be set back, and what a person does; "" = it can.
std::string no_way_back(const RunState& run, const OperatorAsked& asked) {
  const std::string& format = run.policy.checkpoints.format;
  if (resume_files(format, "/", Iteration{}).checkpoint.empty())
    return fmt::format(
        "stoker cannot set its checkpoints back (checkpoints.format is neither megatron nor "
        "deepspeed); manually: `stoker stop {0}`, make the script resume from the checkpoint that "
        "you want, `stoker resume {0}`",
        run.policy.run.text);
  for (const char* key : {"lr-scale", "skip-samples"})
    if (asked.arguments.contains(key))
      return fmt::format("--{} does not apply to a script; change it in the script itself", key);
  return run.asked.going_back
             ? fmt::format("a rollback to {} is under way", run.asked.going_back->to.value)
             : "";
}

}  // namespace

void roll_back(Turn& turn, const OperatorAsked& asked, const std::string& sentence) {
  RunState& run = turn.r();
  if (const std::string why = no_way_back(run, asked); !why.empty())
    return turn.reject(fmt::format("{}; {}", sentence, why));
  std::uint64_t to = 0;
  const auto word = asked.arguments.find("to");
  const std::string text = word == asked.arguments.end() ? "" : word->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || to == 0)
    return turn.reject(fmt::format("{}; --to needs the iteration of a checkpoint", sentence));
  if (turn.kind() == TrainingKind::Finished || turn.in<training::Stopping>() != nullptr ||
      turn.in<training::Recovering>() != nullptr)
    return turn.reject(fmt::format("{}; the run is {}", sentence, state_name(run.training)));
  run.asked.going_back = GoingBack{Iteration(to), asked.by, false, false};
  turn.say(fmt::format("{}; looking for the checkpoint of {} first", sentence, to));
  turn.act(point_of(run.policy, Iteration(to), false));
}

void on_resume_point(Turn& turn, const SetResumePoint& point, const std::string& failed) {
  RunState& run = turn.r();
  if (!run.asked.going_back || run.asked.going_back->to != point.iteration ||
      run.asked.going_back->written != point.write)
    return;
  const std::string back = fmt::format("the rollback to {}", point.iteration.value);
  if (!failed.empty()) {
    run.asked.going_back.reset();
    if (point.write && turn.in<training::Queued>() != nullptr)
      return hold(turn, {"rollback_failed",
                         fmt::format("{} failed: {}", back, failed),
                         "set the script's resume point manually",
                         {}});
    turn.say(fmt::format("{} is given up, nothing was changed: {}", back, failed));
    return raise(turn, {Severity::Warning, "rollback_failed",
                        fmt::format("{}: {} is given up: {}", turn.name().text, back, failed),
                        command_text(turn.name(), "why"), ""});
  }
  if (!point.write) {
    run.asked.going_back->sure = true;
    cancel_waiting(turn);
    const std::string sure = fmt::format("the checkpoint of {} is there", point.iteration.value);
    if (turn.active())
      return leave(turn, training::Goal::Next, wire::Level::LeaveNow,
                   fmt::format("{}; its job ends first", sure));
    turn.say(sure);
    if (turn.in<training::Queued>() != nullptr) return supply::ensure(turn, "");
    return turn.say("it is set at the next `stoker resume`");
  }
  const Iteration to = run.asked.going_back->to;
  run.asked.going_back.reset();
  run.recovery.budget.best = run.health.progress.iteration = to;
  run.recovery.trail.saved = std::min(run.recovery.trail.saved, to);
  signals::forget_after(run.health.loss, to);
  resolve(turn, "loss_spike");
  turn.say(fmt::format("{} is set; the previous contents are kept beside the files", back));
  if (turn.in<training::Queued>() != nullptr) supply::ensure(turn, "");
}

bool sets_resume_point(Turn& turn, const std::string& why) {
  RunState& run = turn.r();
  if (!run.asked.going_back || !run.asked.going_back->sure) return false;
  turn.go(training::Queued{}, Trigger::Submits,
          fmt::format("{}the checkpoint of {} is set as the one to resume from first",
                      why.empty() ? "" : why + "; ", run.asked.going_back->to.value));
  if (!std::exchange(run.asked.going_back->written, true))
    turn.act(point_of(run.policy, run.asked.going_back->to, true));
  return true;
}

bool moved(const RunState& run, const LiveGeneration& live) {
  return run.recovery.budget.best > live.best;
}

bool wait_for_stillness(Turn& turn, Trigger trigger, const std::string& sentence,
                        const std::string& whose) {
  RunState& run = turn.r();
  const bool array = std::any_of(run.jobs.supply.begin(), run.jobs.supply.end(),
                                 [](const auto& entry) { return entry.second.waiting() > 0; });
  if (array) {
    turn.say("the next task of its array starts at once: the array's only guard is its own %1");
    return false;
  }
  turn.go(
      training::Queued{turn.now() + kOrphanGrace, ""}, trigger,
      fmt::format("{}{}{} may still write, so the next job waits until logs and checkpoints "
                  "have not changed for {}",
                  sentence, sentence.empty() ? "" : "; ", whose, format_duration(kOrphanGrace)));
  turn.act(LookAtTree{checkpoints_of(run.policy)});
  return true;
}

bool looks(const RunState& run) {
  const auto* queued = std::get_if<training::Queued>(&run.training);
  return queued != nullptr && queued->tree.has_value();
}

void look_again(Turn& turn) {
  auto* queued = turn.in<training::Queued>();
  if (!queued->tree->empty()) {
    turn.say("the logs did not change; checking the checkpoints");
    return turn.act(LookAtTree{checkpoints_of(turn.r().policy)});
  }
  queued->submit_at = turn.now() + kOrphanGrace;
  turn.say("the checkpoints cannot be read yet; still waiting");
}

void on_tree(Turn& turn, const std::string& tree) {
  if (!looks(turn.r())) return;
  auto* queued = turn.in<training::Queued>();
  const std::string before = *queued->tree;
  queued->tree = tree;
  if (queued->submit_at && *queued->submit_at > turn.now() && !before.empty()) return;
  if (before == tree) {
    queued->tree.reset();
    turn.r().jobs.may_write = false;
    return supply::ensure(turn, fmt::format("logs and checkpoints have not changed for {}",
                                            format_duration(kOrphanGrace)));
  }
  queued->submit_at = turn.now() + kOrphanGrace;
  if (before.empty()) return;
  turn.say(fmt::format("{} was written since; still waiting", checkpoints_of(turn.r().policy)));
}

void on_tree_unseen(Turn& turn, const std::string& why) {
  if (!looks(turn.r())) return;
  turn.r().jobs.may_write = false;  // the operator sees to it
  hold(turn,
       {"node_fault",
        fmt::format("cannot determine whether the lost node's processes still write: {}", why),
        "check that its processes are gone",
        {}});
}

void on_late_progress(Turn& turn, const Digest& digest) {
  RunState& run = turn.r();
  if (run.live || digest.generation != run.newest) return;
  Progress& progress = run.health.progress;
  const Iteration reached = digest.last.iteration_max;
  if (digest.last.total != 0) progress.total = digest.last.total;
  auto* queued = turn.in<training::Queued>();
  const bool waits = queued != nullptr && queued->submit_at;
  const bool more = reached > progress.iteration;
  // Without a wait only what shows that it got further counts, and not after a rollback.
  if (reached == progress.iteration || (!waits && (!more || run.asked.going_back))) return;
  progress.iteration = reached;
  if (more) count_progress(run, reached, turn.now());
  if (waits) {
    queued->submit_at = turn.now() + kOrphanGrace;
    turn.say(
        fmt::format("generation {} is over and its logs still grow (iteration {}); still waiting",
                    digest.generation.value, reached.value));
  } else if (reached.value >= last_iteration(run)) {
    turn.say(fmt::format(
        "generation {} is over; lines that were read late show that it reached iteration {}",
        digest.generation.value, reached.value));
  }
}

}  // namespace stoker::core::script
