// PULSE lines; the moment is an argument.
#include "cli/show/pulse_text.hpp"

#include <fmt/format.h>

#include "common/hostlist.hpp"

namespace stoker::cli {
namespace {

std::string clock_duration(Duration d) {  // D-HH:MM:SS, as SLURM writes it
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(d).count();
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", s / 3600 % 24, s / 60 % 60, s % 60);
  return s < 86400 ? clock : fmt::format("{}-{}", s / 86400, clock);
}

std::string progress_text(const wire::StatusDocument& s) {
  std::string text;
  if (s.iteration > 0)
    text += s.total > 0 ? fmt::format(", iteration {}/{}", s.iteration, s.total)
                        : fmt::format(", iteration {}", s.iteration);
  if (s.loss) text += fmt::format(", loss {:.4f}", *s.loss);
  if (s.checkpoint)
    text += fmt::format(
        ", checkpoint {} of {} ago", s.checkpoint->iteration,
        format_duration(from_seconds(
            s.checkpoint->age_s >= 0 && s.checkpoint->age_s < 1e9 ? s.checkpoint->age_s : 0)));
  return text;
}

std::string since_text(const wire::StatusDocument& s, WallTime now) {
  const auto since = parse_rfc3339(s.since);
  if (!since || *since > now) return "";
  std::string moment = format_rfc3339(*since);
  moment.pop_back();
  return fmt::format(" for {} since {}", clock_duration(now - *since), moment);
}

// Nothing observes the run: what it does now is unknown.
std::string unobserved_text(const wire::StatusDocument& s, WallTime now) {
  const auto published = parse_rfc3339(s.published);
  const std::string age = published && *published <= now
                              ? format_duration(now - *published) + " ago"
                              : "at an unknown time";
  return fmt::format(
      "***ALERT: {} is not observed! stokerd last published its state {}: it was {}. Start stokerd "
      "again; stoker doctor says how***",
      s.run, age, s.state);
}

}  // namespace

bool is_alert(const wire::StatusDocument& s) {
  if (s.state == "finished" || s.state == "stopped") return false;
  return s.stale || s.state == "held" || s.state == "idle";
}

std::string pulse_text(const wire::StatusDocument& s, WallTime now) {
  std::string stamp = format_rfc3339(now);
  stamp[10] = ' ';
  stamp.pop_back();
  const std::string head = "[" + stamp + "] ";
  if (s.state == "finished")
    return head + fmt::format("PULSE: {} is finished{}", s.run, progress_text(s));
  if (s.state == "stopped")
    return head + fmt::format("PULSE: {} is stopped, as asked: {}", s.run, s.reason);
  if (s.stale) return head + unobserved_text(s, now);
  if (s.state == "queued")
    return head + fmt::format("PULSE: {} is waiting to be scheduled ({})", s.run,
                              s.job.empty() ? "being submitted" : s.job);
  if (s.state == "held" || s.state == "idle") {
    const std::string word = s.state == "held" ? "is HELD" : "is idle";
    return head +
           fmt::format("***ALERT: {} {}, not RUNNING or SCHEDULED! {}***", s.run, word, s.reason);
  }
  std::vector<NodeName> nodes;
  for (const std::string& node : s.nodes) nodes.emplace_back(node);
  std::string where = s.job;
  if (!nodes.empty()) where += (where.empty() ? "" : " on ") + compress_hostlist(nodes);
  return head + fmt::format("PULSE: {} is {}{}{}{}", s.run,
                            s.state == "training" ? "running" : s.state, since_text(s, now),
                            where.empty() ? "" : " (" + where + ")", progress_text(s));
}

}  // namespace stoker::cli
