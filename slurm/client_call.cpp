#include "slurm/client_call.hpp"

#include <string_view>

namespace stoker::slurm {
namespace {

constexpr std::string_view kDropped[] = {"SLURM_", "SBATCH_",  "SRUN_",     "SALLOC_", "SQUEUE_",
                                         "SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_"};

bool dropped(std::string_view name) {
  if (name == "SLURM_CONF") return false;
  for (const std::string_view prefix : kDropped)
    if (name.substr(0, prefix.size()) == prefix) return true;
  return false;
}

}  // namespace

std::map<std::string, std::string> clean_environment(
    const std::map<std::string, std::string>& ours) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : ours)
    if (!dropped(name)) out[name] = value;
  out["LC_ALL"] = "C";
  out["SLURM_TIME_FORMAT"] = "%s";
  return out;
}

os::SpawnOptions client_call(std::vector<std::string> argv,
                             const std::map<std::string, std::string>& ours) {
  os::SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = clean_environment(ours);
  return options;
}

std::string what_it_said(const os::CommandOutput& output) {
  std::string_view rest = output.err;
  std::string_view last;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) last = line;
  }
  if (!last.empty()) return std::string(last.substr(0, 400));
  return output.status.text();
}

}  // namespace stoker::slurm
