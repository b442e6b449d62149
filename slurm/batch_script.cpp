#include "slurm/batch_script.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "common/shell_word.hpp"

namespace stoker::slurm {
namespace {

constexpr Duration kMaxSignalTime = std::chrono::seconds(65535);  // sbatch(1), --signal

bool has_control(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u < 0x20 || u == 0x7f;
  });
}

// A value in an #SBATCH line: sbatch knows double quotes and backslashes, and ends the line at '#'.
std::string sbatch_value(const std::string& text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return is_plain_in_shell(c) || c == '[' || c == ']';
      }))
    return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

class Script {
 public:
  void option(const std::string& name, const std::string& value) {
    check(value);
    text_ += fmt::format("#SBATCH --{}={}\n", name, sbatch_value(value));
  }
  void flag(const std::string& name) { text_ += fmt::format("#SBATCH --{}\n", name); }
  void raw_option(const std::string& option) {  // "--hint=nomultithread", as the user wrote it
    check(option);
    text_ += "#SBATCH " + sbatch_value(option) + "\n";
  }
  void line(const std::string& text) { text_ += text + "\n"; }
  std::string word(const std::string& text) {
    check(text);
    return shell_word(text);
  }
  Result<std::string> done() {
    if (!bad_.empty())
      return fail("a value holds a control character, which no batch script can carry", bad_,
                  "remove it from RUN.yaml");
    return text_;
  }

 private:
  void check(const std::string& text) {
    if (bad_.empty() && has_control(text)) bad_ = text.substr(0, 80);
  }
  std::string text_, bad_;
};

// srun hands a signal to every process of its step (measured with 22.05.8), the ranks too, and USR1
// ends every process that does not trap it: SLURM's warning of the wall is asked for only where the
// training knows what it means. Others learn it from the daemon, and from the agent's own clock.
bool traps_usr1(const core::TrainPolicy& train) {
  if (!train.save_signal.empty()) return train.save_signal == "USR1";
  if (train.command.empty()) return false;
  const std::string& program = train.command.front();
  return program.substr(program.rfind('/') + 1) == "stoker-train";
}

void add_options(Script& s, const core::SubmitRequest& request) {
  const core::Submit& submit = request.submit;
  const core::SchedulerPolicy& policy = request.policy.scheduler;
  s.option("job-name", request.policy.run.text);
  s.option("comment", submit.token.text);
  if (submit.array_tasks > 1) s.option("array", fmt::format("1-{}%1", submit.array_tasks));
  s.option("nodes", std::to_string(submit.nodes));
  s.option("ntasks-per-node", "1");
  if (policy.cpus_per_task) s.option("cpus-per-task", std::to_string(*policy.cpus_per_task));
  if (policy.gpus_per_node) s.option("gres", fmt::format("gpu:{}", *policy.gpus_per_node));
  if (!policy.partition.empty()) s.option("partition", policy.partition);
  if (!policy.account.empty()) s.option("account", policy.account);
  s.option("time", slurm_duration(submit.time_limit));
  const Duration before =
      std::min({request.policy.train.exit_before_limit, submit.time_limit / 2, kMaxSignalTime});
  if (before >= 1s && traps_usr1(request.policy.train))
    s.option("signal", fmt::format("B:USR1@{}", before / std::chrono::seconds(1)));
  std::string dependency = "singleton";
  if (!submit.dependency.empty()) dependency += "," + submit.dependency;
  s.option("dependency", dependency);
  if (!submit.begin.empty()) s.option("begin", submit.begin);
  if (!submit.exclude.empty()) s.option("exclude", compress_hostlist(submit.exclude));
  s.option("chdir", request.policy.directory);
  if (request.follower) {
    s.option("nice", "100");  // sbatch's own: behind the training's jobs
    s.option("output", request.output + "-%j.out");
  } else {
    s.option("output", request.policy.directory +
                           (submit.array_tasks > 1 ? "/slurm-%A_%a.out" : "/slurm-%j.out"));
  }
  s.option("open-mode", "append");
  s.flag("no-requeue");
  if (submit.hold_for_spares) s.flag("no-kill");
  for (const std::string& option : extra_options(request)) s.raw_option(option);
}

// The wall, for the agent: newer releases tell it; 22.05 does not, and then it is start + limit.
void add_wall(Script& s, Duration limit) {
  s.line(fmt::format("wall=$(( ${{SLURM_JOB_START_TIME:-$(date +%s)}} + {} ))",
                     (limit + 999ms) / std::chrono::seconds(1)));
  s.line("export STOKER_JOB_END_NS=$(( ${SLURM_JOB_END_TIME:-$wall} * 1000000000 ))");
}

void wait_for_step(Script& s) {
  s.line("step=$!");
  s.line("# wait returns at every trapped signal: wait again until the child itself has ended.");
  s.line("while kill -0 \"$step\" 2>/dev/null; do wait \"$step\"; done");
  s.line("wait \"$step\"");
  s.line("exit $?");
}

// With restarts inside the allocation one lost agent must not end the others, however long they go
// on (--wait=0); otherwise a step whose first task has left ends within ten minutes.
void add_step(Script& s, const core::SubmitRequest& request) {
  if (request.follower) {  // once; it may start steps itself
    std::string command;
    for (const std::string& argument : request.agent_command)
      command += (command.empty() ? "" : " ") + s.word(argument);
    s.line(command + " &");
    return wait_for_step(s);
  }
  std::string srun = "srun --export=ALL --ntasks-per-node=1 --kill-on-bad-exit=0";
  if (const auto& cpus = request.policy.scheduler.cpus_per_task)
    srun += fmt::format(" --cpus-per-task={}", *cpus);  // not inherited since 22.05
  srun += request.submit.hold_for_spares ? " --no-kill --wait=0" : " --wait=600";
  for (const std::string& argument : request.agent_command) srun += " " + s.word(argument);
  s.line(srun + " &");
  wait_for_step(s);
}

}  // namespace

std::vector<std::string> extra_options(const core::SubmitRequest& request) {
  constexpr std::string_view kReservation = "--reservation";
  const auto& extra = request.policy.scheduler.extra;
  if (!request.submit.unreserved) return extra;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < extra.size(); ++i) {
    if (extra[i] == kReservation)
      ++i;  // its value stands alone
    else if (!extra[i].starts_with(std::string(kReservation) + "="))
      out.push_back(extra[i]);
  }
  return out;
}

std::string slurm_duration(Duration d) {
  const auto s = (d + 999999999ns) / std::chrono::seconds(1);
  const auto clock = fmt::format("{:02}:{:02}:{:02}", s / 3600 % 24, s / 60 % 60, s % 60);
  return s >= 86400 ? fmt::format("{}-{}", s / 86400, clock) : clock;
}

std::string script_path(const core::SubmitRequest& request) {
  return request.policy.directory + "/batch/" + request.submit.token.text + ".sh";
}

Result<std::string> batch_script(const core::SubmitRequest& request) {
  if (request.agent_command.empty()) return fail("no command to run", request.policy.run.text);
  Script s;
  s.line("#!/bin/bash");
  s.line(fmt::format("# One submission of run {}, order {}. By hand: sbatch THIS_FILE",
                     s.word(request.policy.run.text), request.submit.order.value));
  add_options(s, request);
  s.line("");
  s.line("# The run's environment; the agent reads the rest from its orders.");
  for (const auto& [name, value] : request.environment) {
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return c == '_' || (is_plain_in_shell(c) &&
                          std::string_view("-.,:/=@%+^").find(c) == std::string_view::npos);
    });
    if (!plain || (name.front() >= '0' && name.front() <= '9'))
      return fail("not the name of an environment variable", name.substr(0, 80));
    s.line(fmt::format("export {}={}", name, s.word(value)));
  }
  if (request.environment.count("STOKER_TOKEN") == 0)
    s.line("export STOKER_TOKEN=" + s.word(request.submit.token.text));
  add_wall(s, request.submit.time_limit);
  if (!request.policy.train.setup.empty()) {
    std::string setup = request.policy.train.setup;
    if (setup.front() != '/') setup = request.policy.config_directory + "/" + setup;
    s.line(". " + s.word(setup));
  }
  s.line("");
  s.line("# The command runs in the background: bash runs no trap while a foreground child runs.");
  s.line(traps_usr1(request.policy.train) ? "trap 'kill -USR1 \"$step\" 2>/dev/null' USR1"
                                          : "trap '' USR1");
  s.line("trap 'kill -TERM \"$step\" 2>/dev/null' TERM");
  add_step(s, request);
  return s.done();
}

}  // namespace stoker::slurm
