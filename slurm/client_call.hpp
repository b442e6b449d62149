// How SLURM's commands are called: argv arrays, a cleaned environment, a deadline, English, times
// as seconds. Never a shell.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/engine/ports.hpp"

namespace stoker::slurm {

// Drops SLURM_*, SBATCH_*, SRUN_*, SALLOC_*, SQUEUE_*, SACCT_*, SCANCEL_*, SCONTROL_*, SINFO_* but
// SLURM_CONF: SQUEUE_PARTITION and its like give exit 0 and an empty list, and a job's SLURM_MEM_*
// breaks srun. Adds LC_ALL=C and SLURM_TIME_FORMAT=%s.
std::map<std::string, std::string> clean_environment(
    const std::map<std::string, std::string>& ours);

// `cluster`: which one it acts on, of those that slurmdbd knows (their -M); "" = SLURM_CONF's. Of a
// federation no command shows its siblings: their nodes have the same names, their jobs are not
// ours (measured with 22.05.8, FederationParameters=fed_display).
os::SpawnOptions client_call(std::vector<std::string> argv,
                             const std::map<std::string, std::string>& ours,
                             const std::string& cluster = {});

// One line that people read: the last line of stderr that says something, else how it ended.
std::string what_it_said(const os::CommandOutput& output);

}  // namespace stoker::slurm
