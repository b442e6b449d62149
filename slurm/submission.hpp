// What one call of sbatch is made of: our own batch script, or an existing one as it is
// (train.batch_script) with the options that supervision needs. Options of the command line win
// over the script's #SBATCH lines.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/engine/ports.hpp"

namespace stoker::slurm {

struct Submission {
  std::vector<std::string> argv;                   // the script's path is the last argument
  std::string folder;                              // where sbatch runs; "" = anywhere
  std::map<std::string, std::string> environment;  // added to sbatch's, which the job inherits
  bool is_array = false;
  std::string text;      // of a script of ours, to be written first
  std::string script{};  // text of an existing one, for slurmrestd, which reads no files
};
// Errors: a value that no batch script or command line can carry.
Result<Submission> prepare(const core::SubmitRequest& request);

}  // namespace stoker::slurm
