#include "cli/init/detect.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/init/python_text.hpp"
#include "cli/read/log_look.hpp"
#include "common/os/files.hpp"
#include "common/printable.hpp"
#include "configs/schema/run_checks.hpp"
#include "slurm/adopt.hpp"
#include "slurm/launch.hpp"
#include "slurm/script_options.hpp"

namespace stoker::cli::init {
namespace {

constexpr std::size_t kLargestScript = 4u << 20;  // SLURM's own limit, max_script_size
using Words = std::vector<std::string>;

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A file's name without its ending.
std::string stem_of(const std::string& path) {
  const std::string name = file_name(path);
  const auto dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

// VARIABLE=value, as a shell takes it in front of a command.
bool is_assignment(const std::string& word) {
  const auto equals = word.find('=');
  if (equals == 0 || equals == std::string::npos) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// The program that trains, for the run's name: train.py of "python3 -u train.py --lr 1".
std::string trained_by(const Words& argv) {
  for (const std::string& word : argv)
    if (word.ends_with(".py") || word.ends_with(".sh")) return word;
  for (std::size_t i = 1; i < argv.size(); ++i)
    if (argv[i - 1] == "-m") return argv[i].substr(argv[i].rfind('.') + 1);
  return argv.front();
}

void put_size(const Host& host, const slurm::Launch& launch, bool spreads, Draft& draft) {
  if (launch.nodes)
    draft.put("scheduler.nodes", fmt::format("{}", *launch.nodes), How::Detected, "--nnodes");
  else
    draft.put("scheduler.nodes", "1", How::Assumed, "the command does not say how many");
  const auto asked = slurm::whole_number(launch.per_node);
  const bool starts_itself = launch.program.empty();
  const std::uint32_t gpus = std::max(host.gpus, 1u);
  if (starts_itself)
    draft.put("train.ranks_per_node", "1", How::Assumed,
              fmt::format("{} starts its processes itself", fmt::join(draft.launchers, ", ")));
  else if (asked && *asked > 0 && *asked <= 256)
    draft.put("train.ranks_per_node", fmt::format("{}", *asked), How::Detected, "--nproc_per_node");
  else if (!launch.per_node.empty())
    draft.put("train.ranks_per_node", fmt::format("{}", gpus), How::Assumed,
              fmt::format("--nproc_per_node={}; {} here", launch.per_node,
                          host.gpus == 0 ? "no GPU is" : "as many GPUs are"));
  else
    draft.put("train.ranks_per_node", fmt::format("{}", spreads ? gpus : 1), How::Assumed,
              spreads && host.gpus > 0 ? "one for each GPU of this host" : "one process a node");
  if (host.gpus > 0)
    draft.put("scheduler.gpus_per_node", fmt::format("{}", host.gpus), How::Assumed,
              "this host has as many");
}

// What options of the command say: --save, --output_dir and their kind.
void put_options(const Host& host, const Words& argv, Draft& draft) {
  slurm::ScriptCommand command{{}, host.folder};
  for (const std::string& word : argv)
    if (!word.empty()) command.words.push_back({word, word, false});
  slurm::ScriptOptions options;
  options.take(command);
  if (const auto* save = options.checkpoints(); save != nullptr && save->known)
    draft.put("checkpoints.directory",
              yaml_text(configs::path_from(configs::path_from(host.folder, save->text),
                                           options.checkpoint_subfolder())),
              How::Detected, fmt::format("{} {}", save->name, save->text));
  if (const auto* kill = options.kill_switch(); kill != nullptr && kill->known)
    draft.put("train.kill_switch", yaml_text(configs::path_from(host.folder, kill->text)),
              How::Detected, kill->name);
}

// What the text of the program says where the command does not.
PythonText put_python(const Host& host, const std::string& path, Draft& draft) {
  const auto text = os::read_file(path, kLargestScript);
  if (!text) return {};
  const PythonText said = read_python(*text);
  const auto where = [&](const SaidByText& s) {
    return fmt::format("{} line {}", file_name(path), s.line);
  };
  if (!said.checkpoints.value.empty() && draft.find("checkpoints.directory") == nullptr)
    draft.put("checkpoints.directory",
              yaml_text(configs::path_from(host.folder, said.checkpoints.value)), How::Detected,
              where(said.checkpoints));
  if (!said.save_signal.value.empty())
    draft.put("train.save_signal", said.save_signal.value, How::Detected, where(said.save_signal));
  return said;
}

void put_scheduler(const Host& host, Draft& draft) {
  draft.put("scheduler.kind", host.has_slurm ? "slurm" : "local", How::Assumed,
            host.has_slurm ? "sbatch is in PATH" : "no sbatch is in PATH");
}

// A program of the virtual environment that is active here: the daemon's may be another one.
std::string resolved(const Host& host, const std::string& program) {
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const auto prefix = host.environment.find(name), path = host.environment.find("PATH");
    if (prefix == host.environment.end() || path == host.environment.end()) continue;
    const auto found = configs::find_program(program, path->second);
    if (found && found->starts_with(prefix->second + "/")) return *found;
  }
  return program;
}

bool is_here(const Host& host, const std::string& program) {
  if (program.find('/') != std::string::npos)
    return os::exists(configs::path_from(host.folder, program));
  const auto path = host.environment.find("PATH");
  return configs::find_program(program,
                               path == host.environment.end() ? "/usr/bin:/bin" : path->second)
      .has_value();
}

// The command as it is started by hand: in its folder, with its variables.
void put_command(const Host& host, Words program, const Words& variables, Draft& draft) {
  program.front() = resolved(host, program.front());
  Words argv{"env", "--chdir=" + host.folder};
  argv.insert(argv.end(), variables.begin(), variables.end());
  argv.insert(argv.end(), program.begin(), program.end());
  draft.put("train.command", yaml_list(argv), How::Detected,
            draft.path.empty() ? "the command, in the folder where it was given"
                               : "the script, in its own folder");
}

}  // namespace

Host this_host(const std::map<std::string, std::string>& environment) {
  Host host;
  host.environment = environment;
  // A secret may begin as a path does; what is there is one.
  std::erase_if(host.environment, [](const auto& variable) {
    return variable.second.starts_with('/') && !os::exists(variable.second);
  });
  host.folder = os::absolute_path(".").value_or("/");
  const auto path = environment.find("PATH");
  host.has_slurm =
      configs::find_program("sbatch", path == environment.end() ? "/usr/bin:/bin" : path->second)
          .has_value();
  host.gpus = static_cast<std::uint32_t>(os::matching_paths("/dev/nvidia[0-9]*").size());
  return host;
}

Result<Draft> draft_of_command(const Host& host, const std::vector<std::string>& argv) {
  const auto begin = std::find_if_not(argv.begin(), argv.end(), is_assignment);
  const Words variables(argv.begin(), begin), words(begin, argv.end());
  if (words.empty() || words.front().empty())
    return fail("there is no program in it", "the command", "stoker init -- PROGRAM ARGUMENTS");
  Draft draft;
  draft.source = "command";
  const slurm::Launch launch = slurm::read_launch(words);
  draft.launchers = launch.launchers;
  const Words program = launch.program.empty() ? words : launch.program;
  const std::string trainer = trained_by(program);
  draft.put("run", yaml_text(slurm::run_name_of(stem_of(trainer))), How::Assumed,
            "after " + printable(file_name(trainer)));
  put_scheduler(host, draft);
  put_options(host, program, draft);
  PythonText said;
  if (trainer.ends_with(".py"))
    said = put_python(host, configs::path_from(host.folder, trainer), draft);
  put_size(host, launch, !said.spreads.value.empty(), draft);
  put_command(host, program, variables, draft);
  if (const std::string& name = program.front(); !is_here(host, name))
    draft.notes.push_back(fmt::format("\"{}\" is not a program of this host", printable(name)));
  draft.put("train.finished", "exit_zero", How::Assumed,
            "it is finished when it ends with exit code 0");
  if (!launch.launchers.empty() && launch.program.empty())
    draft.notes.push_back(
        fmt::format("{} starts the processes itself: stoker sees one process a node, and several "
                    "nodes need the launcher's own settings",
                    fmt::join(launch.launchers, ", ")));
  else if (!launch.launchers.empty())
    draft.notes.push_back(
        "stoker-agent takes the place of torchrun and sets the same variables (RANK, WORLD_SIZE, "
        "MASTER_ADDR, …)");
  return draft;
}

namespace {

Result<Draft> draft_of_program(const Host& host, const std::string& path, const Words& argv,
                               const char* source) {
  Host there = host;
  there.folder = folder_of(path);
  STOKER_TRY(draft, draft_of_command(there, argv));
  draft.source = source;
  draft.path = path;
  draft.put("run", yaml_text(slurm::run_name_of(stem_of(path))), How::Assumed,
            "after " + printable(file_name(path)));
  if (draft.source == "python" && !path.ends_with(".py")) put_python(there, path, draft);
  if (const Entry* command = draft.find("train.command"))
    draft.put("train.command", std::string(command->value), How::Detected,
              "the script, in its own folder");
  return draft;
}

}  // namespace

Result<Draft> draft_of_script(const Host& host, const std::string& path) {
  const std::string absolute = configs::path_from(host.folder, path);
  STOKER_TRY(text, os::read_file(absolute, kLargestScript));
  if (text.find('\0') != std::string::npos)
    return fail("no script: it holds a zero byte", path,
                "give a program as a command: stoker init -- PROGRAM …");
  if (absolute.ends_with(".py"))
    return draft_of_program(host, absolute, {"python3", absolute}, "python");
  if (!text.starts_with("#!"))
    return fail("no script: its first line is no \"#!\"", path,
                "name a batch script or a Python file, or give the command: stoker init -- …");
  const std::string first = text.substr(0, text.find('\n'));
  if (first.find("python") != std::string::npos)
    return draft_of_program(host, absolute, {"python3", absolute}, "python");
  const bool batch = !slurm::read_directives(text).empty() || absolute.ends_with(".slurm") ||
                     absolute.ends_with(".sbatch");
  if (batch) return draft_of_batch_script(host, absolute, text);
  STOKER_TRY(draft, draft_of_program(host, absolute, {"bash", absolute}, "shell_script"));
  if (const auto read = slurm::read_batch_script(text, absolute, host.environment)) {
    draft.launchers = read->launchers;
    if (!read->checkpoints.empty())
      draft.put("checkpoints.directory", yaml_text(read->checkpoints), How::Detected,
                read->said_by.at("checkpoints.directory"));
  }
  draft.put("train.ranks_per_node", "1", How::Assumed,
            draft.launchers.empty() ? "the script runs once a node"
                                    : fmt::format("{} in the script starts the processes",
                                                  fmt::join(draft.launchers, ", ")));
  if (!draft.launchers.empty())
    draft.notes.push_back(
        "stoker sees the script as one process a node; a command in its place shows every rank: "
        "stoker init -- torchrun --nproc_per_node=8 train.py …");
  return draft;
}

void add_progress(Draft& draft, const std::vector<std::string>& logs) {
  const auto look = look_at_newest_log(logs, {});
  if (look && look->last)
    return draft.put("watch.progress", "auto", How::Detected,
                     fmt::format("{}, in {}", look->form, look->path));
  draft.put("watch.progress", "auto", How::Assumed,
            !look ? "its iteration lines have a form that stoker knows; no log is here to try"
            : !look->error.empty()
                ? fmt::format("the log cannot be read: {}", look->error)
                : fmt::format("{0} has no iteration line of a known form (stoker parse {0}); set "
                              "{{iteration: 'step=(\\d+)'}}",
                              look->path));
}

}  // namespace stoker::cli::init
