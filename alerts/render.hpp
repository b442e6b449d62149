// RenderedAlert: an alert as every sink needs it: turned into text and labels once. The text
// answers first "do I have to act?": how grave, which run, what happened, what stoker did or what
// to do; then the evidence (the decision's own sentence), what it costs, how the run stands,
// commands to paste and where to look.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"
#include "common/time.hpp"
#include "core/action.hpp"

namespace stoker::alerts {

// An alert that goes in the message of another of its group.
struct GroupedAlert {
  std::string id, title, kind, reason;
  std::map<std::string, std::string> labels;
  WallTime since;
  STOKER_FIELDS(GroupedAlert, id, title, kind, reason, labels, since)
};

struct RenderedAlert {
  EffectKey key;   // of the delivery: "<run>/<seq>/<ordinal>", a repetition appends "/again-<n>"
  std::string id;  // of the incident: all its deliveries are one thread
  core::Severity severity = core::Severity::Warning;
  std::string kind, run;
  std::string summary, reason, command;
  bool resolved = false;
  std::map<std::string, std::string> labels;  // of the action, with run, kind and severity
  WallTime since;                             // when the incident was first sent
  WallTime at;                                // when this delivery was accepted
  std::string report;                         // several lines to pass on; of the first delivery
  std::string acknowledged_by;                // "" = not acknowledged
  bool update = false;                        // the incident was sent before
  bool repeated = false;                      // nothing is new: it is still open
  std::string instead_of;          // the sink that could not deliver it, and why; "" = routed here
  std::string escalated;           // why it goes to a further sink; "" = routed here
  std::string thread;              // incident whose message holds it; "" = its own
  std::vector<GroupedAlert> also;  // in the same message
  std::string impact, progress, curve;  // of core::SendAlert
  std::string page;                     // the run's page; "" = alerts.page is not set
  STOKER_FIELDS(RenderedAlert, key, id, severity, kind, run, summary, reason, command, resolved,
                labels, since, at, report, acknowledged_by, update, repeated, instead_of, escalated,
                thread, also, impact, progress, curve, page)
};

// `page`: alerts.page of RUN.yaml.
RenderedAlert render(const EffectKey& key, const core::SendAlert& alert, WallTime since,
                     WallTime at, const std::string& page = {});

// "firing", "acknowledged" or "resolved".
std::string status_of(const RenderedAlert& alert);
// "CRITICAL", "WARNING", "INFO", "STILL CRITICAL", "ACKNOWLEDGED", "RESOLVED".
std::string word_of(const RenderedAlert& alert);
// "CRITICAL tr11: rank 3 crashed": one line of at most 80 characters.
std::string title_of(const RenderedAlert& alert);
// Whether a person has to act, and the command: "Act now: stoker resume tr11", or what stoker did
// instead: "No need to get up: restarting the ranks …".
std::string verdict_of(const RenderedAlert& alert);
// What else there is to say, each with its name: impact, run, loss, next (a command a line), page.
std::vector<std::pair<std::string, std::string>> details_of(const RenderedAlert& alert);
// The same as lines: "Impact: …\nRun: …\n".
std::string detail_lines(const RenderedAlert& alert);
// First line: the word, the run, what, the verdict. Then one line each: what stoker saw and did,
// the details, since when, the id; then the report.
std::string text_of(const RenderedAlert& alert);
// Everything by name, for templates and commands: title, text, status, severity, run, kind, …
std::map<std::string, std::string> fields_of(const RenderedAlert& alert);

// A line of the log of logs, in the form of the chronicles, with its newline:
// "[2022-05-01 03:56:11] PULSE: tr11 is running …" and "[…] ***ALERT: tr11: … ***". UTC.
std::string pulse_line(WallTime at, const std::string& text);
std::string pulse_line(const RenderedAlert& alert);

// Control characters become blanks; at most `limit` bytes, cut at a character of UTF-8.
std::string one_line(std::string_view text, std::size_t limit);
// As it is, where a chat would take it for Markdown: its own characters are escaped, and an @
// mentions no one.
std::string plain_in_chat(const std::string& text);
// At most `limit` bytes, cut at a character of UTF-8 and marked with "…"; lines stay.
std::string cut(std::string text, std::size_t limit);
// At most `limit` characters (code points).
std::string cut_characters(std::string text, std::size_t limit);

}  // namespace stoker::alerts
