// What `stoker-agent bench --report` prints, one line: the node bench of the node that it runs on.
// `stoker bench-node` and the agent of a job read it.
#pragma once

#include "wire/agent_event.hpp"

namespace stoker::wire {

struct BenchReport {
  int version = 1;
  NodeName node;
  std::map<std::string, double> figures;  // of processors, memory, disk; what could be measured
  std::vector<GpuFigures> gpus;
  std::string note;  // why no GPU was tested
  STOKER_FIELDS(BenchReport, version, node, figures, gpus, note)
};

}  // namespace stoker::wire
