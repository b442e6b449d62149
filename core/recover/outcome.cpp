// What an end means: exit codes of stoker-train are a contract (docs: cli), those of any other
// command mean failure unless they are 0.
#include <algorithm>
#include <fmt/format.h>

#include "common/last_line.hpp"
#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "wire/exit_code.hpp"

namespace stoker::core {
namespace {

using wire::ExitCode;
constexpr std::uint32_t kDiskRetries = 12;

bool is_stoker_train(const RunPolicy& policy) {
  if (policy.train.command.empty()) return false;
  const std::string& program = policy.train.command.front();
  const std::size_t slash = program.rfind('/');
  return program.substr(slash == std::string::npos ? 0 : slash + 1) == "stoker-train";
}

Duration disk_pause(std::uint32_t times) {
  Duration pause = 30s;
  for (std::uint32_t i = 1; i < times && pause < 10min; ++i) pause *= 2;
  return std::min<Duration>(pause, 10min);
}

// What a rank that left by itself said last: most programs name the cause there.
std::string last_words(const wire::RankExited& exited) {
  constexpr std::size_t kMost = 200;
  const std::string_view text = last_line_of(exited.last_lines);
  if (exited.signal != 0 || text.empty()) return "";
  std::string line(text.substr(0, kMost));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return fmt::format(", its last output: \"{}\"", line);
}

// What the rank met anywhere: its peers, a checkpoint that none can take, data that cannot be read;
// and numbers that differ, whose own report says which node they speak against.
bool is_nodes_fault(const RunState& run, int code) {
  const ExitCode ours{code};
  return !is_stoker_train(run.policy) ||
         (ours != ExitCode::PeerLost && ours != ExitCode::CheckpointRefused &&
          ours != ExitCode::NumbersDiffer && ours != ExitCode::DeviceMemory &&
          ours != ExitCode::DataUnreadable);
}

std::string kind_of(const RunState& run, int code) {
  return is_stoker_train(run.policy) && ExitCode{code} == ExitCode::NumbersDiffer ? "numbers_differ"
                                                                                  : "rank_crash";
}

// Codes that a restart cannot fix, or that need something other than a restart. False: a plain
// crash.
bool special_failure(Turn& turn, int code, const std::string& who, const std::string& words) {
  RunState& run = turn.r();
  if (!is_stoker_train(run.policy)) return false;
  const std::string evidence =
      fmt::format("{} ended with {} {}{}", who, exit_text(code, 0), where_text(run), words);
  if (run.live) run.live->failed = run.live->attempt;
  if (ExitCode{code} == ExitCode::Configuration) {
    hold(turn, {"configuration",
                fmt::format("{}; a restart cannot fix a configuration error", evidence),
                "read the last lines of the rank's log and correct TRAIN.yaml",
                {}});
    return true;
  }
  if (ExitCode{code} == ExitCode::DeviceMemory && run.health.progress.iteration.value == 0) {
    hold(turn, {"configuration",
                fmt::format("{}; a restart would ask for the same memory", evidence),
                "use more ranks, train.recompute or a smaller micro-batch in TRAIN.yaml: "
                "`stoker-train --config TRAIN.yaml --dry-run` shows the memory of each rank",
                {}});
    return true;
  }
  if (ExitCode{code} == ExitCode::DiskFull) {
    if (++run.recovery.disk_full > kDiskRetries)
      hold(turn, {"disk_full",
                  fmt::format("{} for the {}th time", evidence, run.recovery.disk_full),
                  "free space where the checkpoints are written",
                  {}});
    else
      hold(turn,
           {"disk_full", fmt::format("{}, the disk is full", evidence),
            "free space where the checkpoints are written", disk_pause(run.recovery.disk_full)});
    return true;
  }
  if (ExitCode{code} == ExitCode::CheckpointRefused && ++run.recovery.refused >= 2) {
    hold(turn, {"checkpoint_refused",
                fmt::format("{} for the second time", evidence),
                "see `stoker events` for the resume audit, then roll back or correct TRAIN.yaml",
                {}});
    return true;
  }
  return false;
}

}  // namespace

EndKind classify(const RunState& run, const Outcome& outcome) {
  if (finished_by_file(run)) return EndKind::Finished;
  if (outcome.all_zero) {
    if (is_stoker_train(run.policy)) return EndKind::Finished;
    // Ranks that were ordered to exit may end with 0: that is how they obey.
    const bool ordered = outcome.ordered ||
                         std::holds_alternative<training::Stopping>(run.training) ||
                         std::holds_alternative<training::Recovering>(run.training);
    const FinishedWhen& when = run.policy.train.finished;
    const std::uint64_t at =
        std::max(run.health.progress.iteration.value, run.health.checkpoint.iteration.value);
    if (ordered && wire::ends_by_exit(when, run.health.progress.total)) return EndKind::Saved;
    return wire::reached_end(when, at, run.health.progress.total) ? EndKind::Finished
                                                                  : EndKind::Failed;
  }
  if (!is_stoker_train(run.policy)) return EndKind::Failed;
  switch (ExitCode{outcome.code}) {
    case ExitCode::Left: return EndKind::Saved;
    case ExitCode::KillSwitch: return outcome.ordered ? EndKind::Obeyed : EndKind::KillSwitch;
    case ExitCode::ExitPoint: return EndKind::ExitReached;
    default: return EndKind::Failed;
  }
}

bool is_overtaken(const Turn& turn) {
  const auto* said = std::get_if<AgentSaid>(&turn.event.body);
  return said != nullptr && said->overtaken;
}

void on_rank_failed(Turn& turn, const wire::RankExited& exited) {
  RunState& run = turn.r();
  if (run.live->failed >= run.live->attempt)
    return turn.say(fmt::format("rank {} on {} ended with {} as well, after the first failure",
                                exited.rank.value, exited.node.text,
                                exit_text(exited.code, exited.signal)));
  const std::string who = fmt::format("rank {} on {}", exited.rank.value, exited.node.text);
  const int code = exited.signal != 0 ? 128 + exited.signal : exited.code;
  if (exited.signal == 0 && is_stoker_train(run.policy)) {
    if (code != 0 && wire::is_planned_exit(code)) return;
    if (ExitCode{code} == ExitCode::PeerLost)
      return turn.say(fmt::format("{} lost a peer; waiting for the rank that ended first", who));
  }
  if (code == 0) return;  // early leavers; the attempt's end decides
  if (!is_overtaken(turn) && special_failure(turn, code, who, last_words(exited))) return;
  Failure failure;
  failure.kind = kind_of(run, code);  // of a signal 128 and more
  failure.evidence =
      fmt::format("{} ended with {}{} {}{}", who, exit_text(exited.code, exited.signal),
                  exited.core ? ", core dumped," : "", where_text(run), last_words(exited));
  if (is_nodes_fault(run, code)) failure.nodes = {exited.node};
  failure.words = last_words(exited);
  failure.signal = wire::signal_of(code);
  recover(turn, failure);
}

void on_attempt_ended(Turn& turn, const Outcome& outcome) {
  RunState& run = turn.r();
  run.live->outcome = outcome;
  const std::string job = job_text(run.live->job);
  switch (classify(run, outcome)) {
    case EndKind::Finished:
      return finish(turn, fmt::format("all {} ended with exit code 0 at iteration {}{}",
                                      count_text(run.live->world_size, "rank"),
                                      run.health.progress.iteration.value,
                                      run.health.progress.total == 0
                                          ? ""
                                          : fmt::format(" of {}", run.health.progress.total)));
    case EndKind::Saved:
      return leave(turn, training::Goal::Next, wire::Level::SaveAndLeave,
                   fmt::format("the training saved and exited {}; the next task continues",
                               where_text(run)));
    case EndKind::Obeyed:
      return leave(turn, training::Goal::Next, wire::Level::LeaveNow,
                   fmt::format("the ranks exited without saving {}, as their agents ordered; the "
                               "next task continues",
                               where_text(run)));
    case EndKind::KillSwitch:
      cancel_waiting(turn);
      return leave(turn, training::Goal::Stop, wire::Level::LeaveNow,
                   fmt::format("the training exited on its kill switch {}", where_text(run)));
    case EndKind::ExitReached:
      cancel_waiting(turn);
      return leave(
          turn, training::Goal::Stop, wire::Level::LeaveNow,
          fmt::format("the training reached its exit iteration or samples {}", where_text(run)));
    case EndKind::Failed: break;
  }
  if (run.live->failed >= run.live->attempt) return;  // counted when its first rank failed
  const std::string who = fmt::format("rank {} on {}", outcome.rank.value, outcome.node.text);
  if (special_failure(turn, outcome.code, who, "")) return;
  Failure failure;
  if (is_nodes_fault(run, outcome.code)) failure.nodes = {outcome.node};
  if (ExitCode{outcome.code} == ExitCode::PeerLost) {
    failure.evidence = fmt::format("{} and its peers lost each other {}; no rank ended before them",
                                   who, where_text(run));
  } else if (outcome.code == 0) {
    failure.nodes.clear();
    failure.evidence = fmt::format(
        "all ranks ended with exit code 0 at iteration {} of {}, which "
        "is not the end",
        run.health.progress.iteration.value, run.health.progress.total);
  } else {
    failure.evidence =
        fmt::format("{} ended with {} {}", who, exit_text(outcome.code, 0), where_text(run));
  }
  if (failure.nodes.size() == 1 && failure.nodes.front().empty()) failure.nodes.clear();
  failure.kind = kind_of(run, outcome.code);
  failure.signal = wire::signal_of(outcome.code);
  recover(turn, failure);
}

}  // namespace stoker::core
