// <state>/published/site.json: the runs under supervision and where each one's directory is, so
// that reading commands find a run by its name while the daemon is away; and the open alerts that
// are of no run (a scheduler that gives no answer). The daemon replaces it;
// <state>/published/nodes.jsonl beside it has one PublishedNode (status.hpp) a line.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "wire/status.hpp"

namespace stoker::wire {

struct SiteRun {
  std::string run, directory;  // directory: the run's, absolute
  std::string copy = {};  // <state>/published/runs/<run>: a second status.json, for when the run
                          // directory is full or away; "" = none
  STOKER_FIELDS(SiteRun, run, directory, copy)
};

struct SiteDocument {
  int version = 1;
  std::vector<SiteRun> runs;            // by name
  std::vector<StatusAlert> alerts;      // of the site itself, newest first
  std::vector<StatusSilence> silences;  // in force, the next to end first
  STOKER_FIELDS(SiteDocument, version, runs, alerts, silences)
};

}  // namespace stoker::wire
