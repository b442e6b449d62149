// The rules, one function each.
#include "alerts/holding.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stoker::alerts {

namespace {
constexpr Duration kDay = 24h;
constexpr int kMostWindows = 16;  // that follow each other

struct LocalTime {
  std::int64_t day = 0;  // since 1970-01-01
  Duration of_day{};
};

LocalTime local(WallTime at, const Duration& offset) {
  const Duration since = at.time_since_epoch() + offset;
  const auto days = std::chrono::floor<std::chrono::days>(since);
  return {days.count(), since - days};
}

std::uint32_t weekday(std::int64_t day) {
  constexpr std::int64_t kThursday = 4;  // 1970-01-01
  return static_cast<std::uint32_t>((((day + kThursday) % 7) + 7) % 7);
}

// The end of this window, when it is open at `now`.
std::optional<WallTime> window_end(const core::QuietHours& hours, WallTime now, const Zone& zone) {
  const LocalTime at = local(now, hours.utc ? Duration::zero() : zone(now));
  const Duration from = std::chrono::minutes(hours.from), to = std::chrono::minutes(hours.to);
  const Duration length = to > from ? to - from : to - from + kDay;
  for (const int back : {0, 1}) {
    const std::uint32_t day = weekday(at.day - back);
    const bool begins = hours.days.empty() ||
                        std::find(hours.days.begin(), hours.days.end(), day) != hours.days.end();
    const Duration inside = at.of_day + back * kDay - from;
    if (begins && inside >= Duration::zero() && inside < length) return now + (length - inside);
  }
  return std::nullopt;
}

bool inhibits(const core::InhibitRule& rule, const OpenCause& cause, const RenderedAlert& alert) {
  return labels_match(rule.source, cause.labels) && labels_match(rule.target, alert.labels) &&
         std::all_of(rule.equal.begin(), rule.equal.end(), [&](const std::string& label) {
           return label_of(cause.labels, label) == label_of(alert.labels, label);
         });
}

const OpenCause* cause_of(const RenderedAlert& alert, const std::string& sink,
                          const std::vector<core::InhibitRule>& rules,
                          const std::vector<OpenCause>& causes) {
  for (const OpenCause& cause : causes)
    if (cause.id != alert.id && (cause.everywhere || cause.sinks.contains(sink)))
      for (const core::InhibitRule& rule : rules)
        if (inhibits(rule, cause, alert)) return &cause;
  return nullptr;
}
}  // namespace

const std::vector<core::InhibitRule>& built_in_inhibitions() {
  static const std::vector<core::InhibitRule> rules{
      {{{"kind", "disk_full"}},
       {{"kind",
         "save_failed|save_overdue|save_unanswered|archive_failed|agents_silent|hang|limbo|"
         "rank_crash|rollback_failed|stopped_by_agents|effect_failed|disk_low"}},
       {"run"}},
      {{{"kind", "node_fault"}, {"severity", "critical"}, {"run", "*"}},
       {{"kind", "hang|hang_limit|agents_silent|rank_crash|limbo|nccl_timeout|nccl_error|slow"}},
       {"run"}},
      {{{"kind", "scheduler_blind"}},
       {{"kind",
         "submit_failed|queue_stuck|submissions|job_unknown|late_job|exclusions_starve|"
         "drain_refused|node_down"}},
       {}},
  };
  return rules;
}

std::optional<WallTime> quiet_until(const std::vector<core::QuietHours>& hours, WallTime now,
                                    const Zone& zone) {
  std::optional<WallTime> until;
  for (int n = 0; n < kMostWindows; ++n) {
    std::optional<WallTime> longer;
    for (const core::QuietHours& window : hours)
      if (const auto end = window_end(window, until.value_or(now), zone);
          end && (!longer || *end > *longer))
        longer = end;
    if (!longer) break;
    until = longer;
  }
  return until;
}

std::optional<Hold> hold_of(const RenderedAlert& alert, const std::string& sink,
                            const core::AlertRules& rules, const std::vector<OpenCause>& causes,
                            HoldTimes times, const Zone& zone) {
  const std::string status = status_of(alert);
  if (status == "firing")
    if (const OpenCause* cause =
            cause_of(alert, sink, rules.inhibit.value_or(built_in_inhibitions()), causes))
      return Hold{label_of(cause->labels, "kind") + " is open (" + cause->id + ")", {}};
  if (alert.severity < core::Severity::Critical)
    if (const auto until = quiet_until(rules.quiet_hours, times.now, zone))
      return Hold{"quiet hours", until};
  if (status != "acknowledged" && !alert.repeated && times.ready > times.now)
    return Hold{kGroupWait, times.ready};
  return std::nullopt;
}

std::optional<Escalation> escalation_of(const RenderedAlert& alert,
                                        const std::map<std::string, WallTime>& first,
                                        const core::AlertRules& rules, WallTime now) {
  if (status_of(alert) != "firing" || first.empty()) return std::nullopt;
  WallTime since = first.begin()->second;
  std::vector<std::string> heard;
  for (const auto& [sink, at] : first) {
    since = std::min(since, at);
    heard.push_back(sink);
  }
  Escalation out;
  Duration longest{};
  for (const core::EscalateRule& rule : rules.escalate) {
    if (alert.severity < rule.severity || now - since < rule.after) continue;
    for (const std::string& sink : rule.to)
      if (!first.contains(sink) &&
          std::find(out.sinks.begin(), out.sinks.end(), sink) == out.sinks.end()) {
        out.sinks.push_back(sink);
        longest = std::max(longest, rule.after);
      }
  }
  if (out.sinks.empty()) return std::nullopt;
  out.why = fmt::format("not acknowledged within {}, sent to {} before", format_duration(longest),
                        fmt::join(heard, ", "));
  return out;
}

}  // namespace stoker::alerts
