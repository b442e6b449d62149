// Launchers: the programs that start the processes of a training (torchrun, deepspeed, accelerate,
// srun, mpirun), as a command or a batch script names them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stoker::slurm {

struct Launch {
  std::vector<std::string> launchers;  // the outermost first: {"srun", "torchrun"}
  // What each process runs, where nothing but torchrun (or no launcher) starts it: agents set the
  // same variables, so it may be started in torchrun's place. Empty: it needs its launcher.
  std::vector<std::string> program;
  std::string per_node;  // processes a node as torchrun is asked: "8", "gpu"; "" = none
  std::optional<std::uint32_t> nodes;  // --nnodes, when it is one number
};

// `argv`: the words of one command, options and all. An option of torchrun that is not known here
// leaves `program` empty.
Launch read_launch(const std::vector<std::string>& argv);

}  // namespace stoker::slurm
