// `stoker-agent bench`: the figures of this node, for people, for `stoker bench-node` and for the
// agent of a job, which runs the GPU part in a process of its own: a driver that hangs or crashes
// takes nothing with it.
#pragma once

#include "wire/node_messages.hpp"

namespace stoker::agent {

struct BenchOptions {
  bool json = false;    // one JSON line a figure
  bool report = false;  // one wire::BenchReport
  bool gpus = false;    // only the GPUs
  std::string directory = ".";
  std::uint32_t burn_s = 10;
};

int bench_command(const BenchOptions& options);

// Runs it for the GPUs of this node; blocks. What went wrong becomes the note.
void bench_gpus_aside(Duration burn, wire::Benched& benched);

}  // namespace stoker::agent
