// What is not known is left out; text of the command is made printable.
#include "cli/show/follower_text.hpp"

#include <fmt/format.h>

#include "cli/show/render_status.hpp"
#include "common/printable.hpp"

namespace stoker::cli {

std::string follow_job_text(const wire::StatusFollowed& job, WallTime now) {
  std::string text = printable(job.state);
  if (!job.job.empty()) text += " (job " + printable(job.job) + ")";
  if (job.attempt > 1) text += fmt::format(", try {}", job.attempt);
  if (const auto at = parse_rfc3339(job.since); at && *at <= now)
    text += fmt::format(", {} {} ago", job.job.empty() ? "due" : "submitted",
                        format_duration(now - *at));
  return text;
}

std::string follow_result_text(const wire::StatusFollowResult& result) {
  std::string text = with_commas(result.iteration) + " ";
  if (result.good)
    text += "done in " + seconds_text(result.s);
  else
    text += "given up";
  return result.text.empty() ? text : text + ": " + printable(result.text);
}

std::string follow_counts_text(const wire::StatusFollower& f) {
  std::string text = fmt::format("{} done", f.good);
  if (f.given_up > 0) text += fmt::format(", {} given up", f.given_up);
  if (f.skipped > 0) text += fmt::format(", {} left out", f.skipped);
  return text;
}

std::string follow_behind_text(const wire::StatusFollower& f) {
  if (f.behind == 0) return "";
  return with_commas(f.behind) + (f.behind == 1 ? " iteration behind" : " iterations behind");
}

std::string follower_line(const wire::StatusFollower& f, WallTime now) {
  std::string text = printable(f.name) + ":";
  for (const wire::StatusFollowed& job : f.jobs)
    text += fmt::format("{} iteration {} {}", text.ends_with(':') ? "" : ",",
                        with_commas(job.iteration), follow_job_text(job, now));
  if (f.jobs.empty()) text += " nothing runs";
  if (!f.waiting.empty())
    text += fmt::format(", {} {}", f.waiting.size(), f.waiting.size() == 1 ? "waits" : "wait");
  if (f.behind > 0) text += ", " + follow_behind_text(f);
  if (f.last) text += "; last " + follow_result_text(*f.last);
  return text + "; " + follow_counts_text(f);
}

}  // namespace stoker::cli
