// The pages of a run that are text: why, logs, events, alerts, followers; and what stands below
// every page.
#include <algorithm>
#include <fmt/format.h>

#include "cli/read/held_alerts.hpp"
#include "cli/show/follower_text.hpp"
#include "cli/show/plain_words.hpp"
#include "cli/show/render_status.hpp"
#include "cli/top/pages.hpp"
#include "cli/top/run_order.hpp"

namespace stoker::cli::top {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

bool matches(const wire::PublishedEvent& e, std::string_view filter) {
  return contains(e.time, filter) || contains(e.kind, filter) || contains(e.decision, filter) ||
         contains(e.reason, filter) ||
         std::any_of(e.actions.begin(), e.actions.end(),
                     [&](const std::string& action) { return contains(action, filter); });
}

void add_trouble(std::vector<Line>& lines, const Detail& detail, int columns) {
  for (const std::string& trouble : detail.trouble)
    add_wrapped(lines, trouble, 0, columns, Shade::Warn);
}

void say_if_empty(std::vector<Line>& lines, std::string_view what, const Selection& selection,
                  int columns) {
  if (!lines.empty()) return;
  add_wrapped(lines,
              selection.page_filter.empty()
                  ? std::string(what)
                  : "nothing matches \"" + selection.page_filter + "\"; / changes it",
              0, columns, Shade::Dim);
}

}  // namespace

std::vector<Line> why_lines(const View& view, const Selection& selection, int columns) {
  std::vector<Line> lines;
  add_trouble(lines, view.detail, columns);
  for (auto e = view.detail.decisions.rbegin(); e != view.detail.decisions.rend(); ++e) {
    if (!matches(*e, selection.page_filter)) continue;
    lines.push_back({{e->time + "  ", Shade::Dim},
                     {e->decision.empty() ? event_words(e->kind) : e->decision, Shade::Bold}});
    add_wrapped(lines, "because " + e->reason, 4, columns);
    for (const std::string& action : e->actions)
      add_wrapped(lines, "action  " + action_words(action), 4, columns, Shade::Info);
  }
  say_if_empty(lines, "nothing was decided yet", selection, columns);
  return lines;
}

std::vector<Line> event_lines(const View& view, const Selection& selection, int columns) {
  std::vector<Line> lines;
  add_trouble(lines, view.detail, columns);
  for (auto e = view.detail.events.rbegin(); e != view.detail.events.rend(); ++e) {
    if (!matches(*e, selection.page_filter)) continue;
    std::string text = fmt::format("{}  {}  {}", e->seq, e->time, event_words(e->kind));
    if (!e->decision.empty()) text += "  " + e->decision;
    if (!e->reason.empty()) text += "  " + e->reason;
    add_wrapped(lines, text, 0, columns, e->decision.empty() ? Shade::Plain : Shade::Bold);
  }
  say_if_empty(lines, "no events were published yet", selection, columns);
  return lines;
}

std::vector<Line> log_lines(const View& view, const Selection& selection, int columns) {
  std::vector<Line> lines;
  add_trouble(lines, view.detail, columns);
  for (const std::string& text : view.detail.log)
    if (contains(text, selection.page_filter)) add_wrapped(lines, text, 0, columns);
  say_if_empty(lines, "the training has written nothing yet", selection, columns);
  return lines;
}

AlertLines alert_lines(const View& view, const Selection& selection, int columns) {
  AlertLines out;
  const auto* run = chosen_run(view, selection);
  const auto* chosen = chosen_alert(view, selection);
  for (std::size_t i = 0; run != nullptr && i < run->alerts.size(); ++i) {
    const wire::StatusAlert& a = run->alerts[i];
    if (&a == chosen) out.begin = out.lines.size();
    const Shade shade = a.severity == "critical" ? Shade::Bad : Shade::Warn;
    add_wrapped(out.lines,
                fmt::format("{}{} {}{}", &a == chosen ? "> " : "  ", a.severity, a.summary,
                            a.acknowledged ? " (acknowledged)" : ""),
                0, columns, shade);
    add_wrapped(out.lines, "since " + a.since + "  [" + a.id + "]", 4, columns, Shade::Dim);
    if (!a.reason.empty()) add_wrapped(out.lines, "why " + a.reason, 4, columns);
    if (!a.command.empty()) add_wrapped(out.lines, "do  " + a.command, 4, columns);
    for (const wire::HeldAlert& held : held_of(view.held, a.id))
      add_wrapped(out.lines, held_text(held), 4, columns, Shade::Warn);
    if (&a == chosen) out.end = out.lines.size();
  }
  if (out.lines.empty())
    add_wrapped(out.lines, "no open alerts of this run", 0, columns, Shade::Dim);
  return out;
}

std::vector<Line> follower_lines(const View& view, const Selection& selection, int columns) {
  std::vector<Line> lines;
  const auto* run = chosen_run(view, selection);
  const std::string& filter = selection.page_filter;
  const bool any = run != nullptr && !run->followers.empty();
  for (std::size_t i = 0; any && i < run->followers.size(); ++i) {
    const wire::StatusFollower& f = run->followers[i];
    if (!contains(f.name, filter) && !(f.last && contains(f.last->text, filter))) continue;
    const std::string behind = follow_behind_text(f);
    const Shade shade = f.last && !f.last->good ? Shade::Bad : Shade::Bold;
    add_wrapped(lines,
                fmt::format("{}  every {} iterations: {}{}", f.name, with_commas(f.every),
                            follow_counts_text(f), behind.empty() ? "" : ", " + behind),
                0, columns, shade);
    for (const wire::StatusFollowed& job : f.jobs)
      add_wrapped(
          lines,
          fmt::format("now   {} {}", with_commas(job.iteration), follow_job_text(job, view.now)), 4,
          columns, Shade::Info);
    for (const std::uint64_t iteration : f.waiting)
      add_wrapped(lines, fmt::format("next  {} waits for its turn", with_commas(iteration)), 4,
                  columns);
    if (f.last)
      add_wrapped(lines, fmt::format("last  {} ({})", follow_result_text(*f.last), f.last->at), 4,
                  columns, f.last->good ? Shade::Plain : Shade::Warn);
  }
  say_if_empty(lines,
               any ? "" : "no command is run on the checkpoints of this run: `after:` of RUN.yaml",
               selection, columns);
  return lines;
}

std::vector<Line> help_lines(int columns) {
  static constexpr std::pair<const char*, const char*> kKeys[] = {
      {"Up Down j k", "move; PgUp PgDn, Home End, g G: further"},
      {"Enter", "open the run: why, nodes, logs, events, alerts, followers"},
      {"Tab Left Right", "the next page of an open run; h l and 1 to 6 too"},
      {"/", "show only what contains a text; Esc shows all again"},
      {"s", "save: a checkpoint now, the training goes on"},
      {"p", "pause: no further submissions; of a paused run: resume"},
      {"A", "acknowledge the alert: it is not repeated"},
      {"", "s, p and A show what they would do and ask y/N first"},
      {"Esc q", "back; on the first screen q quits"},
      {"F10 Ctrl-C", "quit"},
      {"?", "this help; any key leaves it"},
  };
  std::vector<Line> lines;
  for (const auto& [keys, meaning] : kKeys) {
    if (columns < 40) {
      if (*keys != '\0') lines.push_back({{keys, Shade::Bold}});
      add_wrapped(lines, meaning, 2, columns);
      continue;
    }
    std::vector<Line> wrapped;
    add_wrapped(wrapped, meaning, 16, columns);
    wrapped.front() = {{fit(keys, 16), Shade::Bold}, {wrapped.front()[0].text.substr(16)}};
    lines.insert(lines.end(), wrapped.begin(), wrapped.end());
  }
  return lines;
}

std::vector<Line> footer_lines(const Selection& selection, int columns) {
  std::vector<Line> lines;
  if (selection.question) {
    add_wrapped(lines, joined(selection.question->words) + ": " + selection.question->dry_run, 0,
                columns);
    add_wrapped(lines, "do it? y/N", 0, columns, Shade::Bold);
  } else if (selection.typing) {
    const bool runs = selection.page == Page::Runs;
    lines.push_back({{"/" + (runs ? selection.filter : selection.page_filter) + "_"}});
  } else if (!selection.message.empty()) {
    add_wrapped(lines, selection.message, 0, columns);
  } else if (selection.help) {
    lines.push_back({{"any key: back"}});
  } else {
    const bool runs = selection.page == Page::Runs;
    const std::string& filter = runs ? selection.filter : selection.page_filter;
    Line line;
    if (!filter.empty()) line.push_back({"only \"" + filter + "\"  ", Shade::Bold});
    line.push_back({runs ? "Enter open  / filter  s save  p pause  A ack  ? help  q quit"
                         : "q back  Tab next page  / filter  s save  p pause  A ack  ? help"});
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace stoker::cli::top
