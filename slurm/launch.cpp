#include "slurm/launch.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "slurm/script_options.hpp"

namespace stoker::slurm {
namespace {

using Words = std::vector<std::string>;

// torch.distributed.run of PyTorch 2.5, '_' written as '-'.
const std::set<std::string, std::less<>> kWithValue{"--nproc-per-node",
                                                    "--nnodes",
                                                    "--rdzv-backend",
                                                    "--rdzv-endpoint",
                                                    "--rdzv-id",
                                                    "--rdzv-conf",
                                                    "--max-restarts",
                                                    "--monitor-interval",
                                                    "--start-method",
                                                    "--role",
                                                    "--log-dir",
                                                    "--redirects",
                                                    "--tee",
                                                    "--node-rank",
                                                    "--master-addr",
                                                    "--master-port",
                                                    "--local-addr",
                                                    "--logs-specs",
                                                    "-r",
                                                    "-t",
                                                    "--local-ranks-filter"};
const std::set<std::string, std::less<>> kWithout{"--standalone", "--use-env", "--no-python",
                                                  "--module", "-m"};

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_python(const std::string& word) {
  return file_name(word).starts_with("python");
}

// Which launcher a program is; "" = no launcher.
std::string launcher_name(const std::string& program) {
  const std::string name = file_name(program);
  for (const char* known : {"srun", "mpirun", "mpiexec", "torchrun", "deepspeed", "accelerate"})
    if (name == known) return known;
  return name == "torch.distributed.run" || name == "torch.distributed.launch" ? "torchrun" : "";
}

// The interpreter beside a launcher of a virtual environment.
std::string python_beside(const std::string& launcher) {
  const auto slash = launcher.rfind('/');
  return slash == std::string::npos ? "python3" : launcher.substr(0, slash) + "/python3";
}

// Reads torchrun's options; `at` moves to the script. False: one of them is unknown.
bool skip_options(const Words& argv, std::size_t& at, Launch& launch,
                  std::set<std::string>& flags) {
  while (at < argv.size() && argv[at].starts_with("-")) {
    const std::string& word = argv[at++];
    const auto equals = word.find('=');
    std::string name = word.substr(0, equals);
    std::replace(name.begin(), name.end(), '_', '-');
    if (kWithout.contains(name)) {
      flags.insert(name);
      continue;
    }
    if (!kWithValue.contains(name)) return false;
    std::string value;
    if (equals != std::string::npos)
      value = word.substr(equals + 1);
    else if (at < argv.size())
      value = argv[at++];
    if (name == "--nproc-per-node") launch.per_node = value;
    if (const auto n = whole_number(value); name == "--nnodes" && n && *n > 0 && *n < 100'000)
      launch.nodes = static_cast<std::uint32_t>(*n);
  }
  return at < argv.size();
}

// torchrun's words begin behind `at`; `python` starts what it starts.
void read_torchrun(const Words& argv, std::size_t at, const std::string& python, Launch& launch) {
  std::set<std::string> flags;
  if (!skip_options(argv, at, launch, flags)) return;
  if (!flags.contains("--no-python")) launch.program.push_back(python);
  if (flags.contains("-m") || flags.contains("--module")) launch.program.emplace_back("-m");
  launch.program.insert(launch.program.end(), argv.begin() + static_cast<std::ptrdiff_t>(at),
                        argv.end());
}

}  // namespace

Launch read_launch(const std::vector<std::string>& argv) {
  Launch launch;
  if (argv.empty()) return launch;
  if (launcher_name(argv[0]).empty() && !is_python(argv[0])) {
    launch.program = argv;
    return launch;
  }
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const bool module = i > 0 && argv[i - 1] == "-m";
    const std::string name = i == 0 || module || !launch.launchers.empty() || is_python(argv[i - 1])
                                 ? launcher_name(argv[i])
                                 : "";
    if (argv[i].ends_with(".py")) break;  // its own options follow
    if (name.empty()) continue;
    launch.launchers.push_back(name);
    if (name != "torchrun" && name != "srun" && !name.starts_with("mpi")) return launch;
    if (name != "torchrun") continue;
    Launch inner = launch;
    read_torchrun(argv, i + 1, module && i > 1 ? argv[i - 2] : python_beside(argv[i]), inner);
    if (launch.launchers.size() > 1) inner.program.clear();
    return inner;
  }
  if (launch.launchers.empty()) launch.program = argv;
  return launch;
}

}  // namespace stoker::slurm
