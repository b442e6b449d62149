// RenderedAlert: an alert as every sink needs it: once turned into text and labels, whatever the
// sink makes of it. The text says what, how grave, why (the decision's own sentence) and the exact
// command to run.
#pragma once

#include <map>
#include <string>

#include "common/time.hpp"
#include "core/action.hpp"

namespace stoker::alerts {

struct RenderedAlert {
  EffectKey key;   // of the delivery: "<run>/<seq>/<ordinal>", a repetition appends "/again-<n>"
  std::string id;  // of the incident
  core::Severity severity = core::Severity::Warning;
  std::string kind, run;
  std::string summary, reason, command;
  bool resolved = false;
  std::map<std::string, std::string> labels;  // of the action, with run, kind and severity
  WallTime since;                             // when the incident was first told
  WallTime at;                                // when this telling was accepted
  std::string report;                         // several lines to pass on; of the first telling
  STOKER_FIELDS(RenderedAlert, key, id, severity, kind, run, summary, reason, command, resolved,
                labels, since, at, report)
};

RenderedAlert render(const EffectKey& key, const core::SendAlert& alert, WallTime since,
                     WallTime at);

// "tr11: rank 3 crashed (critical)" / "tr11: resolved: rank 3 crashed"; one line.
std::string title_of(const RenderedAlert& alert);
// Title, reason and command, one a line; then the report.
std::string text_of(const RenderedAlert& alert);

// A line of the log of logs, in the form of the chronicles, with its newline:
// "[2022-05-01 03:56:11] PULSE: tr11 is running …" and "[…] ***ALERT: tr11: … ***". UTC.
std::string pulse_line(WallTime at, const std::string& text);
std::string pulse_line(const RenderedAlert& alert);

// Control characters become blanks; at most `limit` bytes, cut at a character of UTF-8.
std::string one_line(std::string_view text, std::size_t limit);

}  // namespace stoker::alerts
