// Lines of "label  value"; what is not known is left out.
#include "cli/show/render_status.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "cli/show/follower_text.hpp"
#include "cli/show/incident_text.hpp"
#include "common/hostlist.hpp"
#include "core/nodes/spares.hpp"
#include "core/publish/goodput.hpp"

namespace stoker::cli {
namespace {

Ink ink_of(const std::string& state) {
  if (state == "training" || state == "finished") return Ink::Green;
  if (state == "held" || state == "suspect") return Ink::Red;
  if (state == "recovering" || state == "stopping") return Ink::Yellow;
  return Ink::Cyan;
}

std::string ago(const std::string& rfc3339, WallTime now) {
  const auto at = parse_rfc3339(rfc3339);
  if (!at) return "at an unknown time";
  const Duration age = now - *at;
  return age < Duration(0) ? rfc3339 : rfc3339 + " (" + format_duration(age) + " ago)";
}

std::string row(std::string_view label, const std::string& value) {
  return fmt::format("  {:<11} {}\n", label, value);
}

// An age as of the publication, now.
std::string aged(double age_s, const wire::StatusDocument& s, WallTime now) {
  const auto at = parse_rfc3339(s.published);
  return seconds_text(age_s + (at && *at < now ? to_seconds(now - *at) : 0));
}

std::string nodes_of(const wire::StatusDocument& s) {
  std::vector<NodeName> names;
  for (const std::string& node : s.nodes) names.emplace_back(node);
  return printable(compress_hostlist(std::move(names)));
}

std::string job_line(const wire::StatusDocument& s) {
  std::string text = s.job.empty() ? "none" : printable(s.job);
  if (!s.job_state.empty()) text += " " + printable(s.job_state);
  if (s.generation > 0) text += fmt::format(", generation {}.{}", s.generation, s.attempt);
  if (!s.nodes.empty()) text += ", nodes " + nodes_of(s);
  return text;
}

std::string progress_line(const wire::StatusDocument& s) {
  std::string text = "iteration " + with_commas(s.iteration);
  if (s.total > 0) {
    text += " of " + with_commas(s.total);
    text += fmt::format(" ({:.1f} %)",
                        100.0 * static_cast<double>(s.iteration) / static_cast<double>(s.total));
  }
  if (s.consumed_samples > 0) text += ", " + with_commas(s.consumed_samples) + " samples";
  if (!s.phase.empty() && s.phase != "iteration") text += ", phase " + printable(s.phase);
  return text;
}

std::string step_line(const wire::StatusDocument& s) {
  std::string text = seconds_text(s.step_s) + " an iteration";
  if (s.step_norm_s > 0)
    text += fmt::format(", usually {} ({:+.0f} %)", seconds_text(s.step_norm_s),
                        100 * (s.step_s / s.step_norm_s - 1));
  if (s.tflops >= 0.05) text += fmt::format(", {:.1f} TFLOPs", s.tflops);
  return text;
}

std::string budget_line(const wire::StatusDocument& s) {
  return fmt::format("{} of {} restarts left, {} of {} without progress, {} so far",
                     s.budget.restarts_left, s.budget.restarts_total, s.budget.without_progress,
                     s.budget.without_progress_limit, s.restarts);
}

std::string spend_line(const wire::StatusSpend& s) {
  std::string text = fmt::format("{:.1f}", s.gpu_hours);
  if (s.budget)
    text += fmt::format(" of {:.1f} GPU hours ({:.1f} %)", *s.budget,
                        *s.budget > 0 ? 100 * s.gpu_hours / *s.budget : 0);
  else
    text += " GPU hours";
  if (s.left_gpu_hours) text += fmt::format(", {:.1f} more to the end", *s.left_gpu_hours);
  if (s.suffices) text += *s.suffices ? ": the budget suffices" : ": the budget does not suffice";
  return text;
}

std::string goodput_line(const wire::StatusGoodput& g) {
  std::string text = fmt::format("{:.1f} % of {}", 100 * g.ettr, seconds_text(g.whole_s));
  for (const char* cause : {"queue", "start", "repeated", "checkpoint", "slow", "down"}) {
    const auto found = g.spent_s.find(cause);
    if (found == g.spent_s.end() || found->second < 0.0005 * g.whole_s) continue;
    text += fmt::format(", {} {:.1f} %", cause, 100 * found->second / g.whole_s);
  }
  if (g.lost_gpu_hours > 0)
    text += fmt::format("; {} lost", core::cost_text(g.lost_gpu_hours, g.lost_node_hours));
  return text;
}

std::string causes_line(const wire::StatusGoodput& g) {
  std::string text;
  for (std::size_t i = 0; i < g.causes.size() && i < 5; ++i) {
    const wire::StatusCost& c = g.causes[i];
    if (std::max(c.gpu_hours, c.node_hours) < 0.005) continue;  // "0.00" says nothing
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", cause_words(printable(c.cause)),
                        c.times > 0 ? fmt::format(" ({} x)", c.times) : "",
                        core::cost_text(c.gpu_hours, c.node_hours));
  }
  return text;
}

std::string energy_line(const wire::StatusEnergy& e) {
  return fmt::format("{:.1f} kWh{}, {}", e.kwh,
                     e.co2_kg ? fmt::format(", {:.1f} kg CO2", *e.co2_kg) : "", printable(e.how));
}

std::string saves_line(const wire::StatusSaves& s) {
  return fmt::format("every {}, best every {} (Daly: a save costs {}, {} {}, one every {})",
                     seconds_text(s.usual_s), seconds_text(s.best_s), seconds_text(s.cost_s),
                     s.failures, s.failures == 1 ? "failure" : "failures", seconds_text(s.mtbf_s));
}

// Thousands of them must not hide the run's state: the gravest are shown.
std::string alert_lines(const wire::StatusDocument& s, const Console& console) {
  constexpr std::size_t kShown = 20;
  std::vector<const wire::StatusAlert*> alerts;
  for (const wire::StatusAlert& alert : s.alerts) alerts.push_back(&alert);
  if (alerts.size() > kShown)
    std::stable_partition(alerts.begin(), alerts.end(),
                          [](const auto* alert) { return alert->severity == "critical"; });
  const std::size_t more = alerts.size() - std::min(alerts.size(), kShown);
  alerts.resize(alerts.size() - more);
  std::string text;
  for (const wire::StatusAlert* each : alerts) {
    const wire::StatusAlert& alert = *each;
    const Ink ink = alert.severity == "critical" ? Ink::Red : Ink::Yellow;
    text +=
        row("alert", console.paint(ink, printable(alert.severity)) + " " +
                         printable(alert.summary) + (alert.acknowledged ? " (acknowledged)" : "") +
                         " [" + printable(alert.id) + "]");
    if (!alert.command.empty()) text += row("", "do: " + printable(alert.command));
  }
  if (more > 0) text += row("", "and " + with_commas(more) + " more: stoker alerts");
  return text;
}

// "16h 40min, at 2026-05-01T21:40:00Z; 15h to 20h (3 more tasks)"
std::string eta_line(const wire::StatusDocument& s, WallTime now) {
  std::string text = seconds_text(*s.eta_s);
  if (std::isfinite(*s.eta_s) && *s.eta_s >= 0 && *s.eta_s < 1e9)
    text += ", at " + format_rfc3339(now + from_seconds(*s.eta_s));
  if (!s.forecast) return text;
  text +=
      fmt::format("; {} to {}", seconds_text(s.forecast->low_s), seconds_text(s.forecast->high_s));
  if (s.forecast->tasks > 0)
    text +=
        fmt::format(" ({} more {})", s.forecast->tasks, s.forecast->tasks == 1 ? "task" : "tasks");
  return text;
}

}  // namespace

std::string seconds_text(double s) {
  if (!std::isfinite(s) || s < 0 || s > 1e9) return "?";
  return format_duration(from_seconds(s));
}

std::string spares_line(const wire::StatusSpares& s) {
  std::string text =
      fmt::format("{} known, {} needed, {} out, {} to spare", s.known, s.needed, s.out, s.free);
  if (s.lost_per_day > 0) text += fmt::format("; {:.2f} lost a day", s.lost_per_day);
  if (const std::string end = core::spares_text(s.out_in_s); !end.empty()) text += ": " + end;
  if (s.accused > 0)
    text +=
        fmt::format("; {} excluded for evidence so far, {} false positives", s.accused, s.falsely);
  return text;
}

std::string with_commas(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string sparkline(const std::vector<double>& points) {
  constexpr std::string_view kLevels = "_.,-~=+*^";
  double low = INFINITY, high = -INFINITY;
  for (const double p : points)
    if (std::isfinite(p)) {
      low = std::min(low, p);
      high = std::max(high, p);
    }
  std::string text;
  for (const double p : points) {
    if (!std::isfinite(p)) {
      text += ' ';
    } else if (!(high > low)) {
      text += '-';
    } else {
      const double share = (p - low) / (high - low);
      text += kLevels[static_cast<std::size_t>(
          std::lround(share * static_cast<double>(kLevels.size() - 1)))];
    }
  }
  return text;
}

std::string render_status(const wire::StatusDocument& s, WallTime now, const Console& console) {
  std::string text = "* " + console.paint(Ink::Bold, printable(s.run)) + "  " +
                     console.paint(ink_of(s.state), printable(s.state));
  for (const std::string& condition : s.conditions) text += " [" + printable(condition) + "]";
  if (s.stale) text += console.paint(Ink::Yellow, " [stale]");
  text += "\n" + row("since", ago(s.since, now));
  if (!s.reason.empty()) text += row("why", printable(s.reason));
  if (const std::string what = to_do_line(s); !what.empty()) text += row("to do", what);
  for (const std::string& line : incident_lines(s, now)) text += row("incident", line);
  text += row("job", job_line(s));
  text += row("progress", progress_line(s));
  if (s.loss) {
    std::string loss = fmt::format("{:.6g}", *s.loss);
    if (s.loss_history.size() > 1) loss += "  " + sparkline(s.loss_history);
    if (s.learning_rate > 0) loss += fmt::format("  lr {:.3g}", s.learning_rate);
    text += row("loss", loss);
  }
  if (s.step_s > 0) text += row("step", step_line(s));
  if (s.slow && s.slow->now && s.slow->usual_s > 0)
    text += row("slow", fmt::format("{:+.1f} % since iteration {}: stoker bisect {}",
                                    100 * (s.slow->step_s / s.slow->usual_s - 1),
                                    with_commas(s.slow->iteration), printable(s.run)));
  text += row("checkpoint", s.checkpoint ? "iteration " + with_commas(s.checkpoint->iteration) +
                                               ", " + aged(s.checkpoint->age_s, s, now) + " old"
                                         : "none yet");
  if (s.archive)
    text += row("archive", "iteration " + with_commas(s.archive->iteration) + ", copied " +
                               aged(s.archive->age_s, s, now) + " ago to " +
                               printable(s.archive->path));
  for (const wire::StatusFollower& follower : s.followers)
    text += row("after", follower_line(follower, now));
  if (s.eta_s) text += row("eta", eta_line(s, now));
  if (s.saves) text += row("saves", saves_line(*s.saves));
  if (s.goodput) text += row("goodput", goodput_line(*s.goodput));
  if (s.spend && (s.spend->budget || s.spend->gpu_hours > 0))
    text += row("spend", spend_line(*s.spend));
  if (const std::string causes = s.goodput ? causes_line(*s.goodput) : ""; !causes.empty())
    text += row("lost to", causes);
  if (s.goodput && s.goodput->mfu)
    text += row("mfu", fmt::format("{:.1f} % while it iterates, {:.1f} % of all time",
                                   100 * *s.goodput->mfu, 100 * s.goodput->mfu_whole.value_or(0)));
  if (s.goodput && s.goodput->energy) text += row("energy", energy_line(*s.goodput->energy));
  if (s.spares && s.spares->known > 0) text += row("nodes", spares_line(*s.spares));
  for (const wire::StatusLeaving& leaving : s.leaving)
    text += row("leaving",
                printable(fmt::format("{} at {}: {}", leaving.nodes, leaving.at, leaving.why)));
  text += row("budget", budget_line(s));
  text += alert_lines(s, console);
  if (s.stale) text += row("published", ago(s.published, now));
  return text;
}

}  // namespace stoker::cli
