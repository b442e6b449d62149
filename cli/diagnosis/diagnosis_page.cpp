// One labelled block after the other; long lines of logs are cut to what a terminal shows,
// sentences of stoker are not.
#include "cli/diagnosis/diagnosis_page.hpp"

#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "common/time.hpp"

namespace stoker::cli {

namespace {

constexpr std::size_t kWidth = 160;
constexpr std::size_t kMostFollowed = 8;

std::string cut(const std::string& text) {
  const std::string safe = printable(text);
  return safe.size() <= kWidth ? safe : fmt::format("{:.{}}...", safe, kWidth - 3);
}

std::string label(const Console& console, std::string_view word) {
  return console.paint(Ink::Bold, fmt::format("{:<10}", word));
}

std::string joined_ranks(const std::vector<std::uint32_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string joined_nodes(const std::vector<std::string>& nodes) {
  std::string text;
  for (const auto& node : nodes) text += (text.empty() ? "" : ",") + node;
  return text;
}

std::string cause_block(const diagnose::Diagnosis& d, const Console& console) {
  const Ink ink = d.fatal                                              ? Ink::Red
                  : d.failure_class == diagnose::FailureClass::Healthy ? Ink::Green
                                                                       : Ink::Yellow;
  return fmt::format("{}{}  {}\n{:10}{} (confidence {:.0f} %)\n", label(console, "CAUSE"),
                     console.paint(ink, std::string(name_of(d.failure_class))),
                     d.fatal ? "the run failed" : "not fatal", "", cut(d.summary),
                     d.confidence * 100);
}

std::string when(const diagnose::Evidence& e) {
  if (!e.first_ms || !e.last_ms) return "";
  const auto shown = [](std::int64_t ms) {
    return format_rfc3339(WallTime(std::chrono::milliseconds(ms)));
  };
  return fmt::format(", from {} to {}", shown(*e.first_ms), shown(*e.last_ms));
}

std::string where_block(const diagnose::Diagnosis& d, const Console& console) {
  std::string text;
  if (!d.root) return d.stacks.empty() ? "" : label(console, "WHERE") + cut(d.stacks) + "\n";
  text += fmt::format("{}{}:{}\n{:10}{}\n", label(console, "WHERE"), printable(d.root->file),
                      d.root->line, "", cut(d.root->text));
  if (d.root->count > 1)
    text += fmt::format("{:10}this line came {} times{}\n", "", d.root->count, when(*d.root));
  if (!d.nodes.empty()) text += fmt::format("{:10}nodes {}\n", "", cut(joined_nodes(d.nodes)));
  if (!d.ranks.empty()) text += fmt::format("{:10}ranks {}\n", "", cut(joined_ranks(d.ranks)));
  if (!d.collective.empty()) text += fmt::format("{:10}{}\n", "", cut(d.collective));
  if (!d.stacks.empty()) text += fmt::format("{:10}{}\n", "", cut(d.stacks));
  return text;
}

std::string followed_block(const diagnose::Diagnosis& d, const Console& console) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& e : d.followed) {
    if (++shown > kMostFollowed) break;
    text +=
        fmt::format("{}{:<26}{:>6}x  {}:{}\n{:12}{}\n",
                    shown == 1 ? label(console, "ALSO") : fmt::format("{:10}", ""),
                    name_of(e.failure_class), e.count, printable(e.file), e.line, "", cut(e.text));
  }
  return text;
}

// For a run that stoker keeps; which one it is the logs do not tell. The reason is the class.
std::string command_of(const diagnose::Diagnosis& d) {
  const auto why = fmt::format("--reason '{}'", name_of(d.failure_class));
  switch (d.advice.action) {
    case diagnose::RunAction::Restart:
    case diagnose::RunAction::RestartExcluding: return "stoker restart RUN " + why;
    case diagnose::RunAction::Rollback: return "stoker rollback RUN --to auto --dry-run " + why;
    case diagnose::RunAction::Hold: return "stoker resume RUN " + why + ", once that is done";
    case diagnose::RunAction::None: break;
  }
  return "";
}

std::string advice_block(const diagnose::Diagnosis& d, const Console& console) {
  std::string text;
  if (!d.advice.text.empty())
    text += fmt::format("{}{}: {}\n", label(console, "DO"), advice_words(d.advice.action),
                        printable(d.advice.text));
  if (!d.exclude.empty())
    text += fmt::format("{:10}stoker exclude {} --for 24h --reason '{}'\n", "",
                        printable(joined_nodes(d.exclude)), name_of(d.failure_class));
  if (const auto command = command_of(d); d.fatal && !command.empty())
    text += fmt::format("{:10}{}\n", "", command);
  return text;
}

}  // namespace

std::string_view advice_words(diagnose::RunAction action) {
  switch (action) {
    case diagnose::RunAction::Restart: return "restart";
    case diagnose::RunAction::RestartExcluding: return "restart without the node";
    case diagnose::RunAction::Rollback: return "roll back";
    case diagnose::RunAction::Hold: return "hold";
    case diagnose::RunAction::None: break;
  }
  return "nothing";
}

std::string diagnosis_page(const diagnose::Diagnosis& d, const DiagnosisScope& scope,
                           const Console& console) {
  std::string page = cause_block(d, console) + where_block(d, console) +
                     followed_block(d, console) + advice_block(d, console);
  if (!d.last_lines.empty()) {
    page += label(console, "LAST") + "the last lines:\n";
    for (const auto& line : d.last_lines) page += fmt::format("{:12}{}\n", "", cut(line));
  }
  page += fmt::format("{}{} files, {} lines", label(console, "READ"), scope.files, scope.lines);
  if (d.last_iteration > 0) page += fmt::format(", last iteration {}", d.last_iteration);
  page += "\n";
  for (const auto& note : d.notes) page += fmt::format("{:10}{}\n", "", printable(note));
  return page;
}

}  // namespace stoker::cli
