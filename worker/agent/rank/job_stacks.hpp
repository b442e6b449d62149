// What lives of a job on this node, for a probe that runs in a step of the job itself: its
// processes with their stacks, and the answer as a file. Only reads processes; writes only below
// `directory`.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::agent {

struct JobProbe {
  std::string job;        // SLURM_JOB_ID
  std::string directory;  // where <node>.<rank>.txt and <node>.probe go
  std::string question;   // repeated in the answer
};

// Blocks, at most 40 s; the answer is there before that, as soon as /proc was read.
Status probe_job(const JobProbe& probe);

}  // namespace stoker::agent
