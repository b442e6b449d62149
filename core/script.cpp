// What is different without agents.
#include "core/script.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/command.hpp"
#include "core/numbers.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"

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
  live.best = run.budget.best;
  live.attempt_at = turn.now();
  run.newest = live.generation;
  run.live = std::move(live);
  begin_numbers(turn, Iteration{});
  run.progress.phase = wire::Phase::Startup;
  run.progress.at = run.progress.phase_since = turn.now();
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
    turn.say(fmt::format("its switch file {} is set", train.kill_switch));
    return turn.act(SetKillSwitch{train.kill_switch, true});
  }
  if (ask_save(turn))
    return turn.say(fmt::format("it gets {} and {} to save", train.save_signal,
                                format_duration(patience(turn.r().policy))));
  turn.say("it has neither a switch file nor a save signal, so it is cancelled");
  cancel_task(turn);
}

Duration patience(const RunPolicy& policy) {
  return policy.hang.checkpoint;
}

std::optional<std::string> finished(const RunState& run, const JobSeen& end) {
  const FinishedWhen& when = run.policy.train.finished;
  const std::uint64_t at = run.progress.iteration.value;
  if (finished_by_file(run)) return fmt::format("{} is there", when.file);
  if (end.state != JobState::Completed || end.exit_code != 0 || end.reason == "forgotten")
    return std::nullopt;
  if (when.exit_zero) return "it ended with exit code 0";
  const std::uint64_t last = when.iteration ? *when.iteration : run.progress.total;
  if (!when.file.empty() || last == 0 || at < last) return std::nullopt;
  return fmt::format("it reached iteration {} of {}", at, last);
}

bool moved(const RunState& run, const LiveGeneration& live) {
  return run.budget.best > live.best;
}

bool wait_for_stillness(Turn& turn, const std::string& sentence) {
  RunState& run = turn.r();
  const bool array = std::any_of(run.supply.begin(), run.supply.end(),
                                 [](const auto& entry) { return entry.second.waiting() > 0; });
  if (array) {
    turn.say("the next task of its array starts at once: the array's only guard is its own %1");
    return false;
  }
  turn.go(training::Queued{turn.now() + kOrphanGrace}, Trigger::TaskEnds,
          fmt::format("{}; the lost node's processes may write on, so the next job waits until the "
                      "logs were still for {}",
                      sentence, format_duration(kOrphanGrace)));
  return true;
}

void on_late_progress(Turn& turn, const Digest& digest) {
  RunState& run = turn.r();
  auto* queued = turn.in<training::Queued>();
  if (run.live || digest.generation != run.newest || queued == nullptr || !queued->submit_at ||
      digest.last.iteration_max == run.progress.iteration)
    return;
  run.progress.iteration = digest.last.iteration_max;
  queued->submit_at = turn.now() + kOrphanGrace;
  turn.say(fmt::format("generation {} is over and its logs still grow (iteration {}); waiting on",
                       digest.generation.value, digest.last.iteration_max.value));
}

}  // namespace stoker::core::script
