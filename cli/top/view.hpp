// View: all that `stoker top` shows, as plain values. The reader fills it from published files, the
// layout turns it into cells.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cli/read/daemon_client.hpp"
#include "common/time.hpp"
#include "wire/agent_event.hpp"
#include "wire/held.hpp"
#include "wire/sinks.hpp"
#include "wire/status.hpp"

namespace stoker::cli::top {

// Of the run that is open.
struct Detail {
  std::string run;                             // "" = no run is open
  std::deque<wire::PublishedEvent> decisions;  // oldest first
  std::deque<wire::PublishedEvent> events;     // oldest first
  std::deque<std::string> log;                 // oldest first
  std::optional<wire::Beat> beat;              // the lead's newest
  Duration beat_age{};                         // since it was written
  std::vector<std::string> trouble;            // what could not be read, a sentence each
};

struct View {
  WallTime now;
  std::string state;  // state directory
  Reach reach = Reach::Answered;
  Duration silent{};    // how long the daemon has not answered
  Duration unread{};    // how long the files have not been read: a file system hangs
  std::string trouble;  // why the daemon does nothing (Reach::Stuck)
  std::vector<wire::StatusDocument> runs;  // in any order
  std::vector<wire::StatusAlert> alerts;   // of the site itself
  std::vector<wire::PublishedNode> nodes;  // by name
  std::vector<wire::FailingSink> sinks;    // that do not deliver
  std::vector<wire::HeldAlert> held;       // open alerts that a rule keeps from a sink
  std::vector<std::string> unreadable;     // a sentence for each document
  Detail detail;
};

}  // namespace stoker::cli::top
