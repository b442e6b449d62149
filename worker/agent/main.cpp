// stoker-agent: one on each node of an allocation; wraps any training command.
#include <charconv>
#include <cstdio>
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "common/manual_page.hpp"
#include "common/printable.hpp"
#include "wire/exit_code.hpp"
#include "worker/agent/follow_checkpoint.hpp"
#include "worker/agent/gpu/bench_command.hpp"
#include "worker/agent/rank/guardian.hpp"
#include "worker/agent/rank/job_stacks.hpp"
#include "worker/agent/rank/stacks.hpp"
#include "worker/agent/run.hpp"
#include "worker/agent/switch_process.hpp"

namespace {

using namespace stoker;
using namespace stoker::agent;

ManualHead manual() {
  return {"stoker-agent",
          STOKER_VERSION,
          "runs and guards the ranks of a training on one node",
          "One runs on each node of an allocation; a job that stoker submits starts it. It starts "
          "the ranks, captures their output, reads their progress, collects stacks and restarts "
          "them as the daemon orders. One of the agents of a job is its lead and writes lead.jsonl "
          "in the run directory, which stokerd reads.",
          {{"stoker", 1}, {"stokerd", 1}, {"stoker-train", 1}, {"stoker-run", 5}}};
}

// "4711:123456" -> identity
std::optional<os::ProcessIdentity> parse_identity(const std::string& text) {
  os::ProcessIdentity id;
  const auto colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), text.data() + colon, id.pid).ptr != text.data() + colon ||
      std::from_chars(text.data() + colon + 1, end, id.started).ptr != end)
    return std::nullopt;
  return id;
}

void add_follow(CLI::App& app, FollowOptions& options) {
  auto* follow = app.add_subcommand(
      "follow", "run the command of a follower (after: of RUN.yaml) on its checkpoint");
  follow->add_option("--folder", options.folder, "where its order.json is")->required();
  follow->add_option("--token", options.token, "of the submission")->required();
  follow->footer(
      "Example:\n  stoker-agent follow --folder /scratch/run/after/evaluate-001000.g000001 "
      "--token TOKEN");
}

struct GuardianFlags {
  GuardianPlan plan;
  std::string agent, keeper;
};

void add_run(CLI::App& app, RunOptions& options) {
  auto* run = app.add_subcommand("run", "run a command on this node's part of an allocation");
  run->add_option("--run-dir", options.run_directory, "the run's directory")->required();
  run->add_option("--generation", options.generation, "auto, or the number to mint");
  run->add_option("--node", options.node, "this node, as the scheduler names it");
  run->add_option("--ranks-per-node", options.ranks_per_node, "ranks on each node");
  run->add_option("--spares", options.spares, "nodes held back for restarts");
  run->add_option("command", options.command, "the training's command, after --");
  run->footer(
      "Example:\n  stoker-agent run --run-dir /scratch/run --node n01 --ranks-per-node 2 "
      "-- python3 train.py");
}

void add_guardian(CLI::App& app, GuardianFlags& flags) {
  auto* guardian = app.add_subcommand("guardian", "guard one rank (started by the agent)");
  guardian->group("");  // not for people
  guardian->add_option("--socket", flags.plan.socket)->required();
  guardian->add_option("--standby", flags.plan.standby);
  guardian->add_option("--agent", flags.agent)->required();
  guardian->add_option("--keeper", flags.keeper)->required();
  guardian->add_option("--mark", flags.plan.mark)->required();
  guardian->add_option("command", flags.plan.command)->required();
}

int cmd_guardian(GuardianFlags& flags) {
  const auto agent = parse_identity(flags.agent);
  const auto keeper = parse_identity(flags.keeper);
  if (!agent || !keeper) return wire::kAgentUsage;
  flags.plan.agent = *agent;
  flags.plan.keeper = *keeper;
  return run_guardian(flags.plan);
}

void add_switches(CLI::App& app, int& socket) {
  auto* switches = app.add_subcommand("switches", "look at switch/ (started by the agent)");
  switches->group("");  // not for people
  switches->add_option("--socket", socket)->required();
}

void add_bench(CLI::App& app, BenchOptions& options) {
  auto* bench = app.add_subcommand(
      "bench", "what this node does: GEMM, memory, disk, network, and each of its GPUs");
  auto* json = bench->add_flag("--json", options.json, "one JSON line a figure");
  bench->add_flag("--report", options.report, "one JSON document, for stoker bench-node")
      ->excludes(json);
  bench->add_option("--directory", options.directory, "where the disk is measured");
  bench->add_option("--burn", options.burn_s, "seconds that the GPUs compute for, 1 to 3600")
      ->check(CLI::Range(1u, 3600u));
  bench->add_flag("--gpus", options.gpus, "only the GPUs");
  bench->footer("Example:\n  stoker-agent bench --burn 60");
}

int cmd_stacks(const std::vector<int>& pids) {
  int missing = 0;
  for (const int pid : pids) {
    if (const auto known = os::identify(pid); !known) {
      tell_stderr("stoker-agent: " + known.error().message());
      ++missing;
      continue;
    }
    fmt::print("{}\n", printable_lines(stacks_of(pid)));
  }
  return missing == 0 ? 0 : 1;
}

int cmd_probe(const JobProbe& probe) {
  if (probe.directory.empty()) {
    tell_stderr("stoker-agent stacks: --job needs --directory");
    return wire::kAgentUsage;
  }
  const Status done = probe_job(probe);
  if (!done) tell_stderr("stoker-agent: " + done.error().message());
  return done ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("stoker-agent: runs and guards the ranks of a training on one node.");
  app.set_version_flag("--version", std::string(STOKER_VERSION));
  app.add_flag_callback("--manual",
                        [&app] {
                          std::fputs(manual_page(app, manual()).c_str(), stdout);
                          throw CLI::Success();
                        })
      ->group("");  // for the packages
  app.require_subcommand(1);
  RunOptions options;
  GuardianFlags guardian;
  FollowOptions follow;
  add_run(app, options);
  add_follow(app, follow);
  add_guardian(app, guardian);
  int switch_socket = -1;
  add_switches(app, switch_socket);
  BenchOptions bench;
  add_bench(app, bench);
  std::vector<int> pids;
  auto* stacks = app.add_subcommand("stacks", "stacks of all threads of processes");
  JobProbe probe;
  auto* pid = stacks->add_option("pid", pids, "process ids");
  auto* job = stacks->add_option("--job", probe.job, "SLURM's number: all its processes here");
  stacks->add_option("--directory", probe.directory, "where the stacks of --job go")->needs(job);
  stacks->add_option("--question", probe.question, "repeated in the answer of --job")->needs(job);
  pid->excludes(job);
  stacks->footer(
      "Example:\n  stoker-agent stacks 4711\n"
      "  srun --overlap --jobid=815 stoker-agent stacks --job 815 --directory /scratch/s");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wire::kAgentUsage;
  }
  if (app.got_subcommand("run")) return run_agent(options);
  if (app.got_subcommand("follow")) return follow_checkpoint(follow);
  if (app.got_subcommand("guardian")) return cmd_guardian(guardian);
  if (app.got_subcommand("switches")) return answer_looks(switch_socket);
  if (app.got_subcommand("bench")) return bench_command(bench);
  if (!probe.job.empty()) return cmd_probe(probe);
  if (!pids.empty()) return cmd_stacks(pids);
  tell_stderr("stoker-agent stacks: name process ids, or --job");
  return wire::kAgentUsage;
}
