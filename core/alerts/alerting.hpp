// Alert policy: which incident is announced, once. One open alert for a (run, kind, subject);
// raised again it is updated, and sent again only when it became graver. Which sink receives it is
// for alerts/.
#pragma once

#include <string>

#include "core/alerts/alert_kind.hpp"
#include "core/turn.hpp"

namespace stoker::core {

struct AlertText {
  Severity severity = Severity::Warning;
  AlertKind kind;
  std::string summary;
  std::string command;      // the exact command to run; "" = nothing to do
  std::string subject;      // node or path of the incident, "" = the run as a whole
  std::string report = {};  // sent with its first telling only
};

// `reason` of the alert is the decision's sentence so far.
void raise(Turn& turn, const AlertText& text);
// Sends an alert that is good news and stays open nowhere.
void announce(Turn& turn, const AlertText& text);
// One incident, one thread: the exclusion of a node that the same event reports as part of a
// failure is not sent by itself. Its report goes with the failure; the alert stays open, quietly.
void group_convictions(SiteState& site, Decision& decision);
// Resolves the open alerts of this kind (and subject, unless ""), with the sentence so far.
void resolve(Turn& turn, AlertKind kind, const std::string& subject = {});
// Resolves all alerts of failures that a working training disproves.
void resolve_failures(Turn& turn);

// Open alerts of a run (of the site: no name) that are not silenced: what the outbox repeats at its
// routes' pace, and refreshes where a receiver forgets.
std::vector<SendAlert> alerts_to_repeat(const SiteState& site, const RunName& run, Instant now);

// Recipients of the alert learn who handles it; repeated: only the name changes.
void acknowledge(Turn& turn, const std::string& id, const std::string& by, const std::string& note);
// Of the run what is open: by a switch file. `words`: those of the file; an id among them is the
// only one.
void acknowledge_run(Turn& turn, const std::string& by, const std::string& words);

}  // namespace stoker::core
