// The rate of submissions. Each has a good reason of its own; many in a row without a completed
// iteration in between mean that a reason is wrong.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {
namespace {

constexpr std::size_t kMost = 3;
constexpr Duration kWithin = 10min;

}  // namespace

void note_accepted(Turn& turn, Submission& s, const JobId& job) {
  if (std::exchange(s.job, JobId{s.job.job == 0 ? job.job : s.job.job, 0}).job != 0) return;
  auto& accepted = turn.r().jobs.accepted;
  std::erase_if(accepted, [&](Instant at) { return at + kWithin <= turn.now(); });
  accepted.push_back(turn.now());
}

bool too_many(const Turn& turn) {
  const auto& accepted = turn.r().jobs.accepted;
  return std::count_if(accepted.begin(), accepted.end(), [&](Instant at) {
           return at + kWithin > turn.now();
         }) >= static_cast<std::ptrdiff_t>(kMost);
}

void hold_submissions(Turn& turn, const std::string& why) {
  const std::string text =
      fmt::format("{}{} submissions within {} and not one completed iteration in between",
                  why.empty() ? "" : why + "; ", kMost, format_duration(kWithin));
  const char* const advice = "find out why the jobs end or are replaced";
  if (!turn.active()) return hold(turn, {"submissions", text, advice, {}});
  turn.say(text + "; no further one beside the task that runs");
  raise(turn, {Severity::Warning, "submissions", fmt::format("{}: {}", turn.name().text, text),
               command_text(turn.name(), "why", "--last 5"), ""});
}

}  // namespace stoker::core::supply
