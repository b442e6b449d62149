// Each check is one function that adds errors at the key it is about.
#include "configs/schema/run_checks.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <grp.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/secret.hpp"
#include "common/os/self.hpp"
#include "common/os/way.hpp"
#include "recipe/numerics.hpp"
#include "recipe/plan.hpp"

namespace stoker::configs {
namespace {

constexpr std::size_t kLargestScript = 4u << 20;  // SLURM's own limit, max_script_size

bool is_program(const std::string& path) {
  struct stat s {};
  return ::stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// A script's interpreter that is not there: exec would fail as if the script itself were missing.
std::string missing_interpreter(const std::string& script) {
  std::string line(256, '\0');
  const os::Fd fd(::open(script.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const ssize_t n = fd ? ::read(fd.get(), line.data(), line.size()) : 0;
  line.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  if (!line.starts_with("#!") || line.find('\n') == std::string::npos) return {};
  const std::size_t begin = line.find_first_not_of(" \t", 2);
  const std::size_t end = line.find_first_of(" \t\r\n", begin);
  const std::string interpreter = line.substr(begin, end - begin);
  return interpreter.starts_with("/") && !is_program(interpreter) ? interpreter : std::string();
}

// Empty, or why exec would refuse a program that is named by its path.
std::string why_not_executed(const std::string& path) {
  if (!os::exists(path)) return "\"" + path + "\" does not exist";
  if (!is_program(path)) return "\"" + path + "\" is no program; chmod +x it";
  if (const std::string interpreter = missing_interpreter(path); !interpreter.empty())
    return "\"" + path + "\" is a script for \"" + interpreter + "\", which does not exist";
  return {};
}

// A path below a folder that this host does not have is a compute node's own affair.
bool of_compute_nodes(const RunConfigFile& file, const std::string& path) {
  return file.policy.scheduler.kind == core::SchedulerKind::Slurm &&
         !os::exists(std::filesystem::path(path).parent_path().string());
}

bool is_readable_file(const std::string& path) {
  struct stat s {};
  return ::stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && ::access(path.c_str(), R_OK) == 0;
}

// The program of the training, or of a follower; `key` is where it stands.
void check_program(RunConfigFile& file, const RunWorld& world, std::string& program,
                   std::string_view key) {
  const core::TrainPolicy& train = file.policy.train;
  if (program.find('/') != std::string::npos) {
    program = path_from(file.policy.config_directory, program);
    if (const std::string why = why_not_executed(program);
        !why.empty() && !of_compute_nodes(file, program))
      file.add_error(key, "the command " + why);
    return;
  }
  const auto own_path = train.environment.find("PATH");
  const auto path = world.environment.find("PATH");
  const std::string list = own_path != train.environment.end() ? own_path->second
                           : path != world.environment.end()   ? path->second
                                                               : std::string("/usr/bin:/bin");
  if (find_program(program, list)) return;
  if (const std::string own = os::own_program(program);
      program.starts_with("stoker") && is_program(own)) {
    program = own;
    return;
  }
  // A set-up script may bring it; compute nodes may have other programs than this host.
  if (!train.setup.empty() || file.policy.scheduler.kind == core::SchedulerKind::Slurm) return;
  file.add_error(key, "the command \"" + program + "\" is nowhere in PATH");
}

// Without its agent every task of the array would end with 127 before anything is seen of it.
void check_agent(RunConfigFile& file, const RunWorld& world) {
  const std::string& given = file.policy.train.agent;
  if (given.empty()) {
    const std::string own = world.agent.empty() ? os::own_program("stoker-agent") : world.agent;
    if (const std::string why = why_not_executed(own); !why.empty())
      file.add_error("train.agent", "the agent " + why +
                                        "; install all programs of stoker in one folder, or name "
                                        "it in train.agent");
    return;
  }
  if (given.find('/') != std::string::npos) {
    const std::string why = why_not_executed(given);
    if (!why.empty() && !of_compute_nodes(file, given))
      file.add_error("train.agent", "the agent " + why);
    return;
  }
  const auto path = world.environment.find("PATH");
  const std::string list = path == world.environment.end() ? "/usr/bin:/bin" : path->second;
  if (!find_program(given, list) && file.policy.scheduler.kind == core::SchedulerKind::Local)
    file.add_error("train.agent", "the agent \"" + given + "\" is nowhere in PATH");
}

// A run without agents: all that is known of it comes from its logs and from SLURM.
void check_script(RunConfigFile& file) {
  const core::RunPolicy& p = file.policy;
  const std::string& script = p.train.batch_script;
  if (!is_readable_file(script)) {
    file.add_error("train.batch_script", "cannot read \"" + script + "\"");
  } else if (const auto text = os::read_file(script, kLargestScript); !text) {
    file.add_error("train.batch_script", text.error().message());
  } else if (!text->starts_with("#!")) {
    file.add_error("train.batch_script",
                   "\"" + script + "\" is no batch script: its first line is no \"#!\"");
  }
  if (p.scheduler.kind != core::SchedulerKind::Slurm)
    file.add_error("train.batch_script", "needs scheduler.kind: slurm");
  if (p.watch.logs.empty())
    file.add_error("train.batch_script",
                   "needs watch.logs: without an agent the progress is read from the logs");
  if (p.scheduler.spares != 0)
    file.add_error("scheduler.spares", "has no use beside train.batch_script; leave it out");
  if (p.scheduler.nodes.size() > 1)
    file.add_error("scheduler.nodes", "a batch script has one size; give the nodes that it wants");
}

void check_files(RunConfigFile& file) {
  const core::RunPolicy& p = file.policy;
  const auto need = [&](const char* key, const std::string& path) {
    if (!path.empty() && !is_readable_file(path))
      file.add_error(key, "cannot read \"" + path + "\"");
  };
  need("train.setup", p.train.setup);
  need("alerts.dead_man.url_file", p.alerts.dead_man_url_file);
  need("scheduler.rest.ca_file", p.scheduler.rest.ca_file);
  const std::string& token = p.scheduler.rest.token_file;
  if (!token.empty() && !token.starts_with("credential:"))  // that is stokerd's alone
    if (const auto secret = os::read_secret(token); !secret)
      file.add_error("scheduler.rest.token_file", secret.error().message());
  for (const std::string& path : p.watch.signatures) need("watch.signatures", path);
  for (const core::SinkPolicy& sink : p.alerts.sinks)
    for (const auto& [name, value] : sink.options) {
      if (!name.ends_with("_file") || value.empty()) continue;
      const std::string path = path_from(p.config_directory, value);
      if (!is_readable_file(path))
        file.add_error("alerts.sinks." + sink.name + "." + name, "cannot read \"" + path + "\"");
    }
}

void check_directory(RunConfigFile& file) {
  if (const std::string why = why_not_writable(file.policy.directory); !why.empty())
    file.add_error("directory", why);
  if (file.policy.group.empty()) return;
  struct group entry {};
  struct group* found = nullptr;
  std::string buffer(1u << 16, '\0');
  ::getgrnam_r(file.policy.group.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    file.add_error("group", "there is no group \"" + file.policy.group + "\" on this host");
    return;
  }
  std::vector<gid_t> mine(256);
  const int count = ::getgroups(static_cast<int>(mine.size()), mine.data());
  mine.resize(static_cast<std::size_t>(std::max(count, 0)));
  mine.push_back(::getegid());
  if (::geteuid() != 0 && std::find(mine.begin(), mine.end(), entry.gr_gid) == mine.end())
    file.add_error("group", "you are no member of the group \"" + file.policy.group + "\"");
}

// An archive is never made: where it is missing later, its disk is away.
void check_archive(RunConfigFile& file) {
  const std::string& to = file.policy.checkpoints.archive_to;
  if (to.empty() || of_compute_nodes(file, to)) return;
  const auto wrong = [&](const std::string& why) { file.add_error("checkpoints.archive.to", why); };
  const bool there = os::exists(to + "/.");
  if (const std::string why = there ? why_not_writable(to) : ""; !why.empty())
    wrong(why);
  else if (const Status way = os::check_way(to); !way)
    wrong(way.error().message());
  else if (const Status kept = there ? os::check_keeps_ours(to) : ok(); !kept)
    wrong(kept.error().message() + ", or make a folder of your own in it");
  if (!there) wrong("there is no directory \"" + to + "\"; make it: mkdir " + to);
  const std::string from = path_from(file.policy.directory, file.policy.checkpoints.directory);
  if (to == from || to.starts_with(from + "/"))
    wrong("lies in the checkpoints' own directory " + from);
}

void check_expressions(RunConfigFile& file, const RunWorld& world) {
  if (!world.regex_error) return;
  for (const auto& [name, expression] : file.policy.watch.progress)
    if (const std::string why = world.regex_error(expression); !why.empty())
      file.add_error("watch.progress." + name, why);
}

// The place of TRAIN.yaml in `stoker-train --config TRAIN.yaml`; nullptr for other commands. With
// "--config=X" the argument is split in two first.
std::string* train_argument(std::vector<std::string>& command) {
  if (command.empty() || std::filesystem::path(command[0]).filename() != "stoker-train")
    return nullptr;
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i].starts_with("--config=")) {
      const std::string value = command[i].substr(9);
      command[i] = "--config";
      command.insert(command.begin() + static_cast<std::ptrdiff_t>(i) + 1, value);
    }
    if (command[i] == "--config" && i + 1 < command.size()) return &command[i + 1];
  }
  return nullptr;
}

void check_ramp(CheckedRun& run) {
  const recipe::TrainConfig& config = run.train->config;
  core::SchedulerPolicy& scheduler = run.file.policy.scheduler;
  const auto plan = recipe::BatchPlan::make(config.batch);
  if (!plan) return;  // reported by the schema of TRAIN.yaml
  const recipe::RankLayout layout{run.file.policy.train.ranks_per_node,
                                  std::uint64_t{config.parallel.tensor} * config.parallel.pipeline};
  constexpr std::uint64_t kLookAhead = 1024;
  std::uint64_t from = 0, most = 0;
  const auto legal = recipe::legal_node_counts(*plan, config.train.samples, layout, kLookAhead);
  for (const core::NodesStep& step : scheduler.nodes) {
    const std::uint64_t to = step.until_samples == 0 ? config.train.samples : step.until_samples;
    const std::uint64_t ranks = step.nodes * layout.ranks_per_node;
    most = std::max<std::uint64_t>(most, step.nodes);
    std::string bad;
    if (scheduler.nodes.size() == 1) {
      const Status fits = recipe::check_batch(*plan, config.train.samples, step.nodes, layout);
      if (!fits) bad = fits.error().message();
    } else if (ranks % layout.model_parallel != 0) {
      bad = fmt::format("{} ranks do not split into groups of {}", ranks, layout.model_parallel);
    } else if (const auto illegal = plan->first_illegal(ranks / layout.model_parallel, from, to)) {
      bad = fmt::format("with {} nodes from {} samples on: {}", step.nodes, from, illegal->text());
    }
    if (!bad.empty()) {
      run.file.errors.push_back({run.train_path, run.train->batch_at, "batch: " + bad});
      return;
    }
    from = to;
  }
  for (std::size_t i = 0; i < scheduler.nodes_allowed.size(); ++i)
    if (const Status fits =
            recipe::check_batch(*plan, config.train.samples, scheduler.nodes_allowed[i], layout);
        !fits)
      run.file.add_error(fmt::format("scheduler.nodes_allowed.[{}]", i), fits.error().message());
  if (!scheduler.nodes_allowed.empty()) return;
  for (const std::uint64_t n : legal)
    if (n <= most) scheduler.nodes_allowed.push_back(static_cast<std::uint32_t>(n));
}

void check_checkpoint_directory(CheckedRun& run) {
  core::RunPolicy& p = run.file.policy;
  const std::string& train = run.train->config.checkpoint.directory;
  const bool given =
      std::any_of(run.file.values.begin(), run.file.values.end(), [](const EffectiveValue& v) {
        return v.at.line > 0 && v.path == std::vector<std::string>{"checkpoints", "directory"};
      });
  if (!given)
    p.checkpoints.directory = train;
  else if (path_from(p.directory, p.checkpoints.directory) != path_from(p.directory, train))
    run.file.add_error("checkpoints.directory", "is \"" + p.checkpoints.directory + "\", but " +
                                                    run.train_path + " saves to \"" + train +
                                                    "\"; leave it out here");
}

// The libraries read these when they are loaded: given here, stoker-train need not start twice.
void pin_numerics(CheckedRun& run) {
  if (run.train->config.train.numerics != recipe::Numerics::Portable) return;
  for (const auto& [name, value] : recipe::portable_environment()) {
    const auto [given, added] = run.file.policy.train.environment.emplace(name, value);
    if (!added && given->second != value)
      run.file.add_error("train.environment." + name,
                         fmt::format("is \"{}\", but train.numerics: portable of {} needs \"{}\"; "
                                     "leave it out here",
                                     given->second, run.train_path, value));
  }
}

void check_training(CheckedRun& run) {
  core::RunPolicy& p = run.file.policy;
  std::string* argument = train_argument(p.train.command);
  if (argument == nullptr) return;
  const std::string beside = path_from(p.config_directory, *argument);
  const std::string inside = path_from(p.directory, *argument);
  run.train_path = !os::exists(beside) && os::exists(inside) ? inside : beside;
  auto loaded = load_train_config(run.train_path);
  if (!loaded) {
    run.file.add_error("train.command", loaded.error().message());
    return;
  }
  *argument = run.train_path;
  run.train = *std::move(loaded);
  run.file.errors.insert(run.file.errors.end(), run.train->errors.begin(), run.train->errors.end());
  if (!run.train->errors.empty()) return;
  check_ramp(run);
  if (p.goodput.sample_flops <= 0)
    p.goodput.sample_flops = recipe::step_flops(
        recipe::FlopsConvention::Model,
        recipe::flops_shape(run.train->config.model, run.train->config.train.recompute), 1);
  check_checkpoint_directory(run);
  pin_numerics(run);
}

}  // namespace

std::optional<std::string> find_program(const std::string& program, const std::string& path_list) {
  for (std::size_t begin = 0; begin <= path_list.size();) {
    const std::size_t end = std::min(path_list.find(':', begin), path_list.size());
    const std::string folder = path_list.substr(begin, end - begin);
    const std::string path = (folder.empty() ? "." : folder) + "/" + program;
    if (is_program(path)) return path;
    begin = end + 1;
  }
  return std::nullopt;
}

std::string why_not_writable(const std::string& directory) {
  std::filesystem::path path(directory);
  struct stat s {};
  while (::stat(path.c_str(), &s) != 0) {
    if (errno == ENOTDIR || (errno != ENOENT && errno != EACCES))
      return fmt::format("cannot make \"{}\": {}", directory, std::strerror(errno));
    if (errno == EACCES || !path.has_relative_path())
      return fmt::format("cannot look at \"{}\": {}", path.string(), std::strerror(errno));
    path = path.parent_path();
  }
  if (!S_ISDIR(s.st_mode))
    return fmt::format("cannot write \"{}\": \"{}\" is no directory", directory, path.string());
  struct statfs fs {};
  const bool kernel = ::statfs(path.c_str(), &fs) == 0 &&
                      (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
  errno = EACCES;
  if (kernel || ::access(path.c_str(), W_OK | X_OK) != 0)
    return fmt::format("cannot write \"{}\": {} \"{}\"", directory,
                       errno == EROFS ? "read-only is" : "no permission to write in",
                       path.string());
  return {};
}

CheckedRun check_run_config(std::string_view text, const RunSchemaContext& context,
                            const RunWorld& world) {
  CheckedRun run;
  run.file = read_run_config(text, context);
  if (run.file.policy.run.empty() && !run.file.errors.empty() && run.file.values.empty())
    return run;  // no YAML at all
  const bool has_program =
      !run.file.policy.train.command.empty() && !run.file.policy.train.command[0].empty();
  check_directory(run.file);
  check_files(run.file);
  check_archive(run.file);
  if (core::has_agents(run.file.policy))
    check_agent(run.file, world);
  else
    check_script(run.file);
  if (!core::has_agents(run.file.policy) && !run.file.policy.after.empty())
    check_agent(run.file, world);  // it runs the followers' commands
  if (run.file.policy.recover.preflight && !core::has_agents(run.file.policy))
    run.file.add_error("recover.preflight",
                       "needs agents: a run of train.batch_script has none; `stoker bench-node` "
                       "tests nodes by hand");
  if (run.file.policy.recover.exclude_drain &&
      run.file.policy.scheduler.kind != core::SchedulerKind::Slurm)
    run.file.add_error("recover.exclude.drain", "needs scheduler.kind: slurm");
  check_expressions(run.file, world);
  auto& after = run.file.policy.after;
  for (std::size_t i = 0; i < after.size(); ++i)
    if (!after[i].command.empty() && !after[i].command[0].empty())
      check_program(run.file, world, after[i].command[0], fmt::format("after.[{}].command.[0]", i));
  if (has_program) {
    check_program(run.file, world, run.file.policy.train.command[0], "train.command.[0]");
    check_training(run);
  }
  return run;
}

Result<CheckedRun> load_run_config(const std::string& path, RunSchemaContext context,
                                   const RunWorld& world) {
  STOKER_TRY(text, os::read_file(path, kLargestYaml));
  STOKER_TRY(absolute, os::absolute_path(path));
  context.file = path;
  context.config_path = absolute;
  CheckedRun run = check_run_config(text, context, world);
  run.text = std::move(text);
  return run;
}

}  // namespace stoker::configs
