// RUN.yaml: `scheduler` and `train`, what is started and where.
#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "configs/schema/run_sections.hpp"

namespace stoker::configs {
namespace {

constexpr std::uint32_t kMaxNodes = 16384;
constexpr std::uint32_t kMaxRanksPerNode = 256;
constexpr const char* kPreload = "STOKER_PRELOAD";                 // wire/environment.hpp
constexpr const char* kPreloadCuda = "STOKER_PRELOAD_CUDA";        // likewise
constexpr const char* kPreloadLearned = "STOKER_PRELOAD_LEARNED";  // worker/agent/rank/preload.hpp

bool one_line(const std::string& text) {
  return text.find_first_of(std::string_view("\n\r\0", 3)) == std::string::npos;
}

void read_nodes(const ValueReader& value, std::vector<core::NodesStep>& steps) {
  if (value.shape() != Shape::Sequence) {
    if (value.read(steps[0].nodes) && (steps[0].nodes < 1 || steps[0].nodes > kMaxNodes))
      value.error(fmt::format("nodes: must be between 1 and {}", kMaxNodes));
    return;
  }
  steps.clear();
  bool open_ended = false, ordered = true;
  value.list([&](ValueReader& item) {
    core::NodesStep step;
    item.map([&](MapReader& m) {
      const std::uint64_t before = steps.empty() ? 0 : steps.back().until_samples;
      m.read("until_samples", step.until_samples);
      read_between(m, "nodes", step.nodes, 1, kMaxNodes);
      if (!m.has("nodes")) m.required("nodes");
      ordered = ordered && !open_ended && (step.until_samples == 0 || step.until_samples > before);
      open_ended = open_ended || step.until_samples == 0;
    });
    steps.push_back(step);
  });
  if (steps.empty()) steps.push_back({});
  if (!ordered || !open_ended)
    value.error(
        "nodes: expected growing until_samples and a last entry without one, like "
        "[{until_samples: 5000000, nodes: 32}, {nodes: 64}]");
}

void read_exclude(MapReader& m, std::vector<NodeName>& nodes) {
  std::vector<std::string> lists;
  if (!m.read("exclude", lists)) return;
  for (const std::string& list : lists) {
    auto names = expand_hostlist(list);
    if (!names) {
      m.at("exclude").error("exclude: " + names.error().message());
      continue;
    }
    nodes.insert(nodes.end(), names->begin(), names->end());
  }
}

void read_finished(MapReader& m, core::FinishedWhen& f, const std::string& folder) {
  const ValueReader value = m.at("finished");
  if (value.shape() == Shape::Null) return;
  if (value.shape() == Shape::Scalar) {
    std::string word;
    if (!value.read(word)) return;
    f.exit_zero = word == "exit_zero";
    if (!f.exit_zero)
      value.error("finished: expected exit_zero, {iteration: N} or {file: PATH}, got \"" + word +
                  "\"");
    return;
  }
  value.map([&](MapReader& x) {
    x.read("iteration", f.iteration);
    x.check("iteration", !f.iteration || *f.iteration > 0, "must be at least 1");
    x.read("file", f.file);
    if (value.given()) x.one_of({"iteration", "file"}, true);
  });
  if (!f.file.empty()) f.file = path_from(folder, f.file);
}

void read_environment(MapReader& m, std::map<std::string, std::string>& environment) {
  const ValueReader value = m.at("environment");
  if (!value.read(environment)) return;
  for (const auto& [name, text] : environment) {
    const bool good = !name.empty() && name.find('=') == std::string::npos && one_line(name);
    if (!good) value.error("environment: \"" + name + "\" is no name of a variable");
    if (name.starts_with("STOKER_"))
      value.error("environment: \"" + name + "\": names that start with STOKER_ are stoker's own");
    if (text.find('\0') != std::string::npos)
      value.error("environment: the value of " + name + " has a zero byte");
  }
}

// Each key sets a variable that agents and ranks read: the author of a batch script sets
// the same ones.
void read_python(MapReader& m, core::TrainPolicy& p) {
  bool unbuffered = true;
  m.read("unbuffered", unbuffered);
  if (!unbuffered) p.environment.emplace("PYTHONUNBUFFERED", "");  // empty: as if it were not set
  std::vector<std::string> preload;
  m.read("preload", preload);
  std::string names;
  for (const std::string& name : preload) {
    const bool good = !name.empty() && name.size() <= 128 &&
                      std::all_of(name.begin(), name.end(), [](unsigned char c) {
                        return std::isalnum(c) != 0 || c == '_' || c == '.';
                      });
    m.check("preload", good, fmt::format("\"{}\" is no name of a Python module", name));
    names += (names.empty() ? "" : ",") + name;
  }
  bool cuda = false;
  m.read("preload_cuda", cuda);
  m.check("preload_cuda", !cuda || !preload.empty(),
          "needs train.preload: it says what its standbys may hold");
  bool learned = true;
  m.read("preload_learned", learned);
  if (preload.empty()) return;
  m.check("preload", p.batch_script.empty(),
          "has no use beside batch_script: nothing of ours is inside its jobs");
  const std::string program = p.command.empty() ? "" : p.command.front();
  m.check("preload",
          program.empty() || program.substr(program.rfind('/') + 1).starts_with("python"),
          fmt::format("needs a command that begins with python, like [python3, train.py]; \"{}\" "
                      "starts its interpreters itself",
                      program));
  p.environment.emplace(kPreload, names);
  if (cuda) p.environment.emplace(kPreloadCuda, "1");
  if (!learned) p.environment.emplace(kPreloadLearned, "0");
}

// "-M b", "--clusters=b"; --cluster-constraint is about features.
bool names_a_cluster(std::string_view option) {
  const auto name = option.substr(0, option.find_first_of("= "));
  return option.starts_with("-M") || name == "--cluster" || name == "--clusters";
}

void read_cluster(MapReader& m, core::SchedulerPolicy& p) {
  m.read("cluster", p.cluster);
  if (!m.has("cluster")) return;
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  m.check("cluster",
          !p.cluster.empty() && p.cluster.find_first_not_of(kLetters) == std::string::npos &&
              p.cluster.front() != '-',
          "must be one cluster's name, as `sacctmgr show cluster` prints it");
  m.check("cluster", p.kind == core::SchedulerKind::Slurm, "needs scheduler.kind: slurm");
  m.check("cluster", p.rest.url.empty(), "has no use beside rest: a slurmrestd serves one cluster");
}

}  // namespace

void read_positive(MapReader& m, std::string_view key, Duration& out) {
  m.read(key, out);
  m.check(key, out > Duration(0), "must be longer than 0s");
}

void read_between(MapReader& m, std::string_view key, std::uint32_t& out, std::uint32_t low,
                  std::uint32_t high) {
  m.read(key, out);
  m.check(key, out >= low && out <= high, fmt::format("must be between {} and {}", low, high));
}

void refuse_unless(MapReader& m, std::string_view key, bool supported, std::string_view what) {
  m.check(key, supported, fmt::format("{} is not supported by this version of stoker", what));
}

void read_rest(MapReader& m, core::RestAccess& rest, const std::string& folder) {
  m.read("url", rest.url);
  m.read("token_file", rest.token_file);
  m.read("ca_file", rest.ca_file);
  m.read("insecure", rest.insecure);
  if (!rest.token_file.empty() && !rest.token_file.starts_with("credential:"))
    rest.token_file = path_from(folder, rest.token_file);
  if (!rest.ca_file.empty()) rest.ca_file = path_from(folder, rest.ca_file);
  if (rest.url.empty()) {
    for (const char* key : {"token_file", "ca_file", "insecure"})
      m.check(key, !m.has(key), "has no use without url");
    return;
  }
  if (const Status usable = core::check_rest_url(rest); !usable)
    m.check("url", false, usable.error().what);
  m.check("url", !rest.token_file.empty() || rest.url.starts_with(core::kUnixUrl),
          "needs token_file where it is no socket: scontrol token writes one");
}

void read_scheduler(MapReader& m, core::SchedulerPolicy& p, const std::string& folder) {
  m.read("kind", p.kind);
  m.map("rest", [&](MapReader& r) { read_rest(r, p.rest, folder); });
  m.check("rest", !m.has("rest") || p.kind == core::SchedulerKind::Slurm,
          "needs scheduler.kind: slurm");
  read_cluster(m, p);
  m.read("partition", p.partition);
  m.read("account", p.account);
  read_nodes(m.at("nodes"), p.nodes);
  m.read("nodes_allowed", p.nodes_allowed);
  for (const std::uint32_t n : p.nodes_allowed)
    m.check("nodes_allowed", n >= 1 && n <= kMaxNodes,
            fmt::format("each must be between 1 and {}", kMaxNodes));
  read_between(m, "spares", p.spares, 0, 1024);
  m.read("gpus_per_node", p.gpus_per_node);
  m.check("gpus_per_node", !p.gpus_per_node || (*p.gpus_per_node >= 1 && *p.gpus_per_node <= 64),
          "must be between 1 and 64; leave it out where a job asks for no GPU");
  m.read("cpus_per_task", p.cpus_per_task);
  m.check("cpus_per_task", !p.cpus_per_task || (*p.cpus_per_task >= 1 && *p.cpus_per_task <= 4096),
          "must be between 1 and 4096");
  read_positive(m, "time_limit", p.time_limit);
  m.map("array", [&](MapReader& a) {
    read_between(a, "tasks", p.array_tasks, 1, 1000);
    a.read("top_up_below", p.top_up_below);
    a.check("top_up_below", p.top_up_below <= p.array_tasks, "must not be more than tasks");
  });
  read_exclude(m, p.exclude);
  std::optional<std::string> begin;
  m.read("begin", begin);
  m.check("begin", !begin || (!begin->empty() && one_line(*begin)), "must be one line of text");
  p.begin = begin.value_or("");
  m.read("extra", p.extra);
  for (const std::string& option : p.extra) {
    m.check("extra", option.starts_with("-") && one_line(option),
            "each entry is one option of sbatch, like \"--hint=nomultithread\"");
    m.check("extra", !names_a_cluster(option),
            "the cluster is named by scheduler.cluster: the jobs are looked for there too");
  }
}

void read_train(MapReader& m, core::TrainPolicy& p, const std::string& folder) {
  m.one_of({"command", "batch_script"}, true);
  m.read("command", p.command);
  if (m.at("command").shape() == Shape::Sequence) {
    m.check("command", !p.command.empty() && !p.command[0].empty(),
            "needs at least the program's name");
    for (const std::string& argument : p.command)
      m.check("command", argument.find('\0') == std::string::npos, "an argument has a zero byte");
  }
  m.read("batch_script", p.batch_script);
  read_between(m, "ranks_per_node", p.ranks_per_node, 1, kMaxRanksPerNode);
  read_environment(m, p.environment);
  read_python(m, p);
  m.read("setup", p.setup);
  m.read("agent", p.agent);
  m.read("kill_switch", p.kill_switch);
  if (!p.batch_script.empty())
    for (const char* key : {"setup", "agent"})
      m.check(key, !m.has(key),
              "has no use beside batch_script: nothing of ours is inside its jobs");
  for (std::string* path : {&p.setup, &p.kill_switch, &p.batch_script})
    if (!path->empty()) *path = path_from(folder, *path);
  if (p.agent.find('/') != std::string::npos) p.agent = path_from(folder, p.agent);
  m.read("save_signal", p.save_signal);
  if (p.save_signal.starts_with("SIG")) p.save_signal.erase(0, 3);
  m.check("save_signal",
          p.save_signal.empty() || p.save_signal == "USR1" || p.save_signal == "USR2" ||
              p.save_signal == "HUP" || p.save_signal == "TERM",
          "expected USR1, USR2, HUP or TERM");
  read_finished(m, p.finished, folder);
  read_positive(m, "exit_before_limit", p.exit_before_limit);
}

}  // namespace stoker::configs
