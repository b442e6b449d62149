// Runs whose files others can write: of a batch script, and of a command with a setup script.
#pragma once

#include <string>
#include <sys/stat.h>

#include "site.hpp"

namespace stoker::cli::test {

inline constexpr const char* kBatch =
    "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=1:00:00\n"
    "#SBATCH -o /tmp/x-%j.log\npython3 train.py\n";

inline std::string script_run(const Site& site, const std::string& script) {
  const std::string path = site.folder() + "/batch.yaml";
  site.write(path,
             "run: hello\ndirectory: " + site.directory() +
                 "\nscheduler: {kind: slurm, nodes: 1, time_limit: 1h}\ntrain: {batch_script: " +
                 script + ", ranks_per_node: 1}\nwatch: {logs: [/tmp/x-*.log]}\n");
  return path;
}

inline std::string command_run(const Site& site, const std::string& command,
                               const std::string& setup) {
  const std::string path = site.folder() + "/command.yaml";
  site.write(path, "run: hello\ndirectory: " + site.directory() +
                       "\nscheduler: {kind: slurm, nodes: 1, time_limit: 1h}\ntrain: {command: [" +
                       command + "], ranks_per_node: 1, setup: " + setup + "}\n");
  return path;
}

inline bool says(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

// In a folder of its own, so that the folder is judged too.
inline std::string put(const Site& site, const std::string& name, const std::string& text) {
  const std::string path = site.folder() + "/team/" + name;
  site.write(path, text);
  REQUIRE(::chmod((site.folder() + "/team").c_str(), 0755) == 0);
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  return path;
}

}  // namespace stoker::cli::test
