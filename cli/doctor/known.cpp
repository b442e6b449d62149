// One function a question; each adds one row to one of the three lists.
#include "cli/doctor/known.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

#include "cli/read/log_look.hpp"
#include "common/os/files.hpp"
#include "watch/foreign_checkpoints.hpp"

namespace stoker::cli {
namespace {

using configs::CheckedRun;

// What the questions are answered from.
struct Source {
  const configs::CheckedRun& run;
  std::vector<std::string> lines;  // of RUN.yaml

  // The key, or one below it, stands in RUN.yaml, and not as an assumption.
  [[nodiscard]] bool given(const std::string& key) const {
    return std::any_of(run.file.values.begin(), run.file.values.end(), [&](const auto& value) {
      const std::string path = fmt::format("{}", fmt::join(value.path, "."));
      return value.at.line > 0 && (path == key || path.starts_with(key + ".")) &&
             !is_assumed(static_cast<std::size_t>(value.at.line));
    });
  }
  // The comment of the line, from 1, or one above it says so.
  [[nodiscard]] bool is_assumed(std::size_t line) const {
    if (line > lines.size()) return false;
    if (lines[line - 1].find("# assumed") != std::string::npos) return true;
    if (line < 2) return false;
    const std::string& above = lines[line - 2];
    return above.substr(std::min(above.find_first_not_of(' '), above.size()))
        .starts_with("# assumed");
  }
  [[nodiscard]] bool own_core() const { return run.train.has_value(); }
};

void put(Knowledge::Rows& rows, std::string what, std::string text) {
  rows.emplace_back(std::move(what), std::move(text));
}

void add_start(const Source& source, Knowledge& out) {
  const core::TrainPolicy& train = source.run.file.policy.train;
  put(out.known, "start",
      train.batch_script.empty()
          ? fmt::format("{} (train.command)", fmt::join(train.command, " "))
          : fmt::format("{}, submitted as it is (train.batch_script)", train.batch_script));
}

void add_size(const Source& source, Knowledge& out) {
  const core::RunPolicy& p = source.run.file.policy;
  const auto& nodes = p.scheduler.nodes;
  const std::string ranks =
      p.train.ranks_per_node == 1 ? "1 rank" : fmt::format("{} ranks", p.train.ranks_per_node);
  const std::string text =
      nodes.size() > 1
          ? fmt::format("{} to {} nodes of {}", nodes.front().nodes, nodes.back().nodes, ranks)
          : fmt::format(
                "{} of {}",
                nodes.front().nodes == 1 ? "1 node" : fmt::format("{} nodes", nodes.front().nodes),
                ranks);
  if (source.given("scheduler.nodes") && source.given("train.ranks_per_node"))
    put(out.known, "size", text);
  else
    put(out.assumed, "size",
        text + " (set scheduler.nodes and train.ranks_per_node where that is wrong)");
}

void add_time_limit(const Source& source, Knowledge& out) {
  const std::string limit = format_duration(source.run.file.policy.scheduler.time_limit);
  if (source.given("scheduler.time_limit"))
    put(out.known, "time limit", limit + " a task");
  else
    put(out.assumed, "time limit", limit + " a task (set scheduler.time_limit)");
}

std::string position_text(const diagnose::IterationMetrics& last) {
  return last.total ? fmt::format("{} of {}", *last.iteration, *last.total)
                    : fmt::format("{}", *last.iteration);
}

void add_progress(const Source& source, Knowledge& out) {
  const core::RunPolicy& p = source.run.file.policy;
  if (source.own_core())
    return put(out.known, "progress", "heartbeats of every rank, each iteration");
  std::vector<std::string> logs = p.watch.logs;
  logs.push_back(p.directory + "/gen-*/main.log");  // what agents captured
  const auto look = look_at_newest_log(logs, p.watch.progress);
  if (!look) {
    put(out.assumed, "progress",
        p.watch.progress.empty()
            ? "its iteration lines have a form that stoker knows; there is no log to try yet "
              "(`stoker parse LOG` tries one; else set watch.progress)"
            : "its iteration lines match watch.progress; there is no log to try yet");
  } else if (!look->error.empty()) {
    put(out.not_known, "progress", "the log cannot be read: " + look->error);
  } else if (look->last) {
    put(out.known, "progress",
        fmt::format("iteration lines ({}), the last at {}, in {}", look->form,
                    position_text(*look->last), look->path));
  } else {
    put(out.not_known, "progress",
        fmt::format("{0} has no iteration line of a known form (stoker parse {0}); set "
                    "watch.progress",
                    look->path));
  }
}

void add_checkpoints(const Source& source, Knowledge& out) {
  const core::RunPolicy& p = source.run.file.policy;
  const std::string folder = configs::path_from(p.directory, p.checkpoints.directory);
  if (source.own_core())
    return put(out.known, "checkpoints",
               folder + ", of stoker's own format, read back before a restart");
  if (!source.given("checkpoints.directory"))
    return put(out.not_known, "checkpoints",
               "where it saves; log lines about saves are noticed all the same (set "
               "checkpoints.directory)");
  const auto newest = watch::newest_foreign_checkpoint(folder);
  if (!newest) return put(out.not_known, "checkpoints", newest.error().message());
  if (*newest)
    put(out.known, "checkpoints",
        fmt::format("{}, the newest of iteration {} ({})", folder, (*newest)->iteration.value,
                    (*newest)->name));
  else
    put(out.assumed, "checkpoints",
        fmt::format("it saves into {}; there is no checkpoint of a known form yet", folder));
}

void add_resume(const Source& source, Knowledge& out) {
  if (source.own_core())
    put(out.known, "resume", "from the newest good checkpoint, exact to the bit");
  else
    put(out.assumed, "resume",
        "the training goes on from its own newest checkpoint when it is "
        "started again; its first iteration line shows where");
}

void add_save(const Source& source, Knowledge& out) {
  const core::TrainPolicy& train = source.run.file.policy.train;
  if (source.own_core())
    put(out.known, "save", "on request, while the training goes on");
  else if (!train.save_signal.empty())
    put(out.known, "save", "on request, by SIG" + train.save_signal);
  else if (!train.kill_switch.empty())
    put(out.known, "save", "on request, by saving and leaving: " + train.kill_switch);
  else
    put(out.not_known, "save",
        core::has_agents(source.run.file.policy)
            ? "how it is asked to save: `stoker save` is refused unless it writes "
              "heartbeats (train.save_signal, train.kill_switch or the Python package)"
            : "how it is asked to save: `stoker save` is refused (train.save_signal or "
              "train.kill_switch)");
}

void add_end(const Source& source, Knowledge& out) {
  const core::FinishedWhen& when = source.run.file.policy.train.finished;
  if (when.iteration)
    put(out.known, "end", fmt::format("finished at iteration {}", *when.iteration));
  else if (!when.file.empty())
    put(out.known, "end", fmt::format("finished when {} is there", when.file));
  else if (when.exit_zero)
    put(out.known, "end", "finished when all ranks end with exit code 0");
  else if (source.own_core())
    put(out.known, "end",
        fmt::format("finished after {} samples (train.samples)",
                    source.run.train->config.train.samples));
  else
    put(out.assumed, "end",
        "finished when an iteration line says N of N (else set train.finished)");
}

void add_hang(const Source& source, Knowledge& out) {
  const core::HangPolicy& hang = source.run.file.policy.hang;
  if (core::has_agents(source.run.file.policy))
    put(out.assumed, "hang",
        fmt::format("a silence between {} and {}, learned from its own steps; {} for the "
                    "start (hang)",
                    format_duration(hang.floor), format_duration(hang.ceiling),
                    format_duration(hang.startup)));
  else
    put(source.given("hang.ceiling") ? out.known : out.assumed, "hang",
        fmt::format("logs that are silent for {} (hang.ceiling)", format_duration(hang.ceiling)));
}

void add_cost(const Source& source, Knowledge& out) {
  const core::RunPolicy& p = source.run.file.policy;
  if (!p.scheduler.gpus_per_node || *p.scheduler.gpus_per_node == 0)
    return put(out.not_known, "cost",
               "GPUs a node: costs are node hours only (set scheduler.gpus_per_node)");
  put(out.known, "cost",
      fmt::format("GPU hours, {} GPUs a node{}", *p.scheduler.gpus_per_node,
                  p.goodput.peak_tflops > 0 ? ", and MFU" : ""));
}

void add_alerts(const Source& source, Knowledge& out) {
  std::vector<std::string> names;
  for (const core::SinkPolicy& sink : source.run.file.policy.alerts.sinks)
    names.push_back(fmt::format("{} ({})", sink.name, sink.kind));
  if (names.empty())
    put(out.not_known, "alerts",
        "who is informed: alerts stay in `stoker status` and in pulse.log "
        "of the state directory (set alerts.sinks)");
  else
    put(out.known, "alerts", fmt::format("go to {}", fmt::join(names, ", ")));
}

void add_followers(const Source& source, Knowledge& out) {
  for (const core::FollowerPolicy& f : source.run.file.policy.after)
    put(out.known, "after " + f.name,
        fmt::format("`{}` on the first checkpoint at or behind each multiple of {} iterations and "
                    "on the last one: {}, up to {}, {} at a time, {}; the training does not wait "
                    "for it",
                    fmt::join(f.command, " "), f.every,
                    f.nodes == 1 ? "1 node" : fmt::format("{} nodes", f.nodes),
                    format_duration(f.time_limit), f.at_once,
                    f.tries == 1 ? "1 try" : fmt::format("{} tries", f.tries)));
}

}  // namespace

Knowledge knowledge_of(const CheckedRun& run, const std::string& text) {
  Source source{run, {}};
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) source.lines.push_back(line);
  Knowledge out;
  for (const auto add :
       {add_start, add_size, add_time_limit, add_progress, add_checkpoints, add_resume, add_save,
        add_end, add_hang, add_cost, add_alerts, add_followers})
    add(source, out);
  return out;
}

}  // namespace stoker::cli
