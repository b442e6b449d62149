// Evidence against nodes, on its way into the ledger: what it leads to is said, a conviction is
// announced with a report for the site's administrators, and counted for the run that made it.
#pragma once

#include <string>
#include <vector>

#include "core/turn.hpp"

namespace stoker::core {

// As note_evidence; returns its sentence.
std::string accuse_node(Turn& turn, const NodeName& node, Evidence evidence, bool strong);
// Evidence of this event and run.
Evidence evidence_of(const Turn& turn, std::string kind, std::string text);

// Nodes that an attempt begins with: those on parole are watched.
void begin_parole(Turn& turn, const std::vector<NodeName>& nodes);
// Progress was saved: nodes that did well for a day are trusted again.
void end_parole(Turn& turn);
// It fails without progress though two nodes or more were excluded for it: they were not the cause.
// Their exclusions end. "" or the end of a sentence. `named`: what the newest failure speaks
// against.
std::string acquit_accused(Turn& turn, const std::vector<NodeName>& named);

void on_kernel_line(Turn& turn, const wire::KernelLine& e);
// What can be measured on a node, and what cannot: "n01 health sources: NVML (12.4); unavailable:
// …".
std::string health_sources_text(const wire::HealthSources& e);
void on_health_sources(Turn& turn, const wire::HealthSources& e);
void on_numbers_differ(Turn& turn, const wire::NumbersDiffer& e);
// benched.cpp
void on_bench_began(Turn& turn, const wire::BenchBegan& e);
void on_nodes_benched(Turn& turn, const wire::NodesBenched& e);

}  // namespace stoker::core
