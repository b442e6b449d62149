#include "slurm/client_call.hpp"

#include <algorithm>
#include <string_view>

namespace stoker::slurm {
namespace {

constexpr std::string_view kDropped[] = {"SLURM_", "SBATCH_",  "SRUN_",     "SALLOC_", "SQUEUE_",
                                         "SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_"};

struct Local {
  std::string_view command;
  const char* variable;  // as its option --local
};
constexpr Local kLocal[] = {{"squeue", "SQUEUE_LOCAL"},
                            {"sinfo", "SINFO_LOCAL"},
                            {"scontrol", "SCONTROL_LOCAL"},
                            {"sacct", "SACCT_LOCAL"}};

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
                             const std::map<std::string, std::string>& ours,
                             const std::string& cluster) {
  os::SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = clean_environment(ours);
  const std::string command = options.argv.front();
  if (const auto* local = std::find_if(std::begin(kLocal), std::end(kLocal),
                                       [&](const Local& of) { return of.command == command; });
      local != std::end(kLocal))
    options.environment[local->variable] = "1";
  if (cluster.empty()) return options;
  if (command == "sacct")  // the only one that does not read the variable
    options.argv.insert(options.argv.begin() + 1, "--clusters=" + cluster);
  else
    options.environment["SLURM_CLUSTERS"] = cluster;
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
