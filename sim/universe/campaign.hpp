// Campaign: many seeds of one scenario, on several threads, added up in the order of the seeds.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/universe/universe.hpp"

namespace stoker::sim {

struct Campaign {
  std::uint64_t first = 1, last = 1;
  Guard broken = Guard::None;
  unsigned threads = 1;
  bool until_first = false;                       // the first failing seed ends it
  Duration wall_limit{};                          // no new seed is begun after it; 0: none
  std::function<void(const std::string&)> trace;  // one thread then
};

struct Failure {
  std::uint64_t seed = 0;
  std::vector<std::string> safety, liveness;
  STOKER_FIELDS(Failure, seed, safety, liveness)
};

struct Report {
  std::uint64_t runs = 0;
  double hours = 0;
  std::uint64_t safety = 0, liveness = 0;  // seeds
  double ettr = 0;                         // mean
  std::uint64_t faults = 0, incidents = 0, manual = 0;
  std::uint64_t followed = 0;     // checkpoints whose followers ended well
  std::uint64_t from_memory = 0;  // attempts that resumed from a snapshot
  std::vector<std::uint64_t> failed_seeds;
  std::vector<Failure> failures;  // the first few
  std::string state, why;         // of the last seed
  Duration useful{}, lost{};      // training time that counts, and that was done twice; all seeds
  // How detectors did against the truth; lengths are the longest.
  std::uint64_t hangs = 0, slows = 0, slowdowns = 0, doubled = 0, false_hangs = 0, false_slows = 0;
  Duration hang_verdict{}, slow_found{};
  std::map<std::string, std::uint64_t> alerts;  // raised, by kind
  STOKER_FIELDS(Report, runs, hours, safety, liveness, ettr, faults, incidents, manual, followed,
                failed_seeds, state, why, useful, lost, hangs, slows, slowdowns, doubled,
                false_hangs, false_slows, hang_verdict, slow_found, alerts, from_memory)
};

Report run_campaign(const Scenario& scenario, const Campaign& campaign);

// XXH3 over all lines of each seed's trace, as text: equal on every machine and of every compiler.
std::vector<std::string> trace_digests(const Scenario& scenario, const Campaign& campaign);

// Leaves out faults of a failing seed for as long as it still fails; the story of what is left.
std::vector<std::string> shrink(const Scenario& scenario, const Campaign& campaign,
                                std::uint64_t seed);

}  // namespace stoker::sim
