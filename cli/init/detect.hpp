// What a training's script or command says about it: the draft of `stoker init`. A batch script is
// read as `stoker adopt` reads it; a Python file and a command by their launcher, their options and
// a few plain lines. Nothing is executed. To add something: a function that puts its key with the
// reason, called in detect.cpp (of a batch script: batch_draft.cpp).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/init/draft.hpp"

namespace stoker::cli::init {

// What this machine says, so that tests can say something else.
struct Host {
  std::map<std::string, std::string> environment;
  std::string folder;      // where `stoker init` was started
  bool has_slurm = false;  // sbatch is in PATH
  std::uint32_t gpus = 0;
};

Host this_host(const std::map<std::string, std::string>& environment);

// A batch script, a shell script or a Python file. Errors: it cannot be read, or has another form.
Result<Draft> draft_of_script(const Host& host, const std::string& path);
// The same for one that has #SBATCH lines. `path`: absolute.
Result<Draft> draft_of_batch_script(const Host& host, const std::string& path,
                                    const std::string& text);
// `argv`: as it is started by hand in host.folder. Errors: nothing is left of it behind variables.
Result<Draft> draft_of_command(const Host& host, const std::vector<std::string>& argv);

// What the newest log shows of its iteration lines; `logs`: beside those that the draft names.
void add_progress(Draft& draft, const std::vector<std::string>& logs);

}  // namespace stoker::cli::init
