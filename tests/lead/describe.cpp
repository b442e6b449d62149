// Actions in short form.
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "common/overloaded.hpp"
#include "tests/lead/script.hpp"

namespace stoker::lead_test {
namespace {

std::string quoted(const std::string& text) {
  return text.empty() ? "" : fmt::format(" \"{}\"", text);
}

std::string end_text(const std::optional<wire::EndMark>& end) {
  if (!end) return "";
  return fmt::format("; the run is {}{}{}", name_of(end->kind),
                     end->by.empty() ? "" : " by " + end->by, quoted(end->why));
}

std::string of(const wire::AttemptStarted& e) {
  return fmt::format("attempt {} started: {} ranks on {} from {}{}{} \"{}\"", e.attempt.value,
                     e.world_size, compress_hostlist(e.nodes), e.iteration.value,
                     e.memory.empty() ? "" : " in memory of " + compress_hostlist(e.memory),
                     e.standby ? " (warm)" : "", e.why);
}

std::string of(const wire::RankExited& e) {
  return fmt::format(
      "rank {} on {} exited {}{}", e.rank.value, e.node.text,
      e.signal != 0 ? fmt::format("signal {}", e.signal) : fmt::format("code {}", e.code),
      e.expected ? " as expected" : "");
}

std::string of(const wire::AttemptEnded& e) {
  return fmt::format("attempt {} ended: {}{}{}{}", e.attempt.value,
                     e.all_zero ? "all zero" : fmt::format("code {}", e.worst_code),
                     e.first_node.empty() ? ""
                                          : fmt::format(", first rank {} on {}", e.first_rank.value,
                                                        e.first_node.text),
                     e.told ? ", as asked" : "", end_text(e.end));
}

std::string of(const wire::NodesBenched& e) {
  std::string text = fmt::format("benched {}{} in {:.0f} s:", e.preflight ? "first " : "",
                                 compress_hostlist(e.tested), e.seconds);
  for (const auto& [node, figures] : e.figures)
    for (const auto& [name, value] : figures)
      text += fmt::format(" {} {} {}", node.text, name, value);
  for (const auto& [node, gpus] : e.gpus)
    for (const wire::GpuFigures& gpu : gpus)
      for (const auto& [name, value] : gpu.figures)
        text += fmt::format(" {}/{} {} {}", node.text, gpu.gpu.pci, name, value);
  for (const auto& [node, note] : e.notes) text += fmt::format(" {} \"{}\"", node.text, note);
  return text;
}

std::string report_text(const wire::AgentBody& body) {
  return std::visit(
      Overloaded{[](const wire::Notice& e) { return fmt::format("notice \"{}\"", e.text); },
                 [](const wire::ControlRefused& e) {
                   return fmt::format("refused{} \"{}\"", e.stale ? " as stale" : "", e.text);
                 },
                 [](const wire::MachineShort& e) {
                   return fmt::format("{} is short: \"{}\"", e.node.text, e.what);
                 },
                 [](const wire::AgentJoined& e) { return "joined " + e.node.text; },
                 [](const wire::AgentLost& e) {
                   return fmt::format("lost {} \"{}\"", e.node.text, e.why);
                 },
                 [](const wire::DamagedCheckpoint& e) {
                   return fmt::format("damaged {} \"{}\"", e.checkpoint, e.why);
                 },
                 [](const wire::Beat& e) {
                   return fmt::format("beat {} iteration {}", name_of(e.phase),
                                      e.iteration_max.value);
                 },
                 [](const wire::PhaseEdge& e) { return fmt::format("phase {}", name_of(e.phase)); },
                 [](const wire::Acknowledged& e) {
                   return fmt::format("acknowledged {} {}{}", e.what, e.value, quoted(e.detail));
                 },
                 [](const wire::AttemptStarted& e) { return of(e); },
                 [](const wire::RankExited& e) { return of(e); },
                 [](const wire::AttemptEnded& e) { return of(e); },
                 [](const wire::BenchBegan& e) {
                   return fmt::format("bench of {} begins{}, {:.0f} s at most",
                                      compress_hostlist(e.tested), e.preflight ? " first" : "",
                                      to_seconds(e.at_most));
                 },
                 [](const wire::NodesBenched& e) { return of(e); },
                 [](const auto& e) { return std::string(std::decay_t<decltype(e)>::kKind); }},
      body);
}

std::string command_text(const wire::NodeCommand& command) {
  return std::visit(
      Overloaded{[](const wire::StopRanks& c) { return fmt::format("stop {}", name_of(c.how)); },
                 [](const wire::ChoosePort& c) {
                   return fmt::format("choose a port for attempt {}", c.attempt.value);
                 },
                 [](const wire::SaveNow& c) { return fmt::format("save {}", c.value); },
                 [](const wire::TakeStacks& c) { return "stacks to " + c.directory; },
                 [](const wire::LeaveWith& c) {
                   return fmt::format("leave with {} \"{}\"", c.exit_code, c.why);
                 },
                 [](const auto& c) { return std::string(std::decay_t<decltype(c)>::kKind); }},
      command);
}

}  // namespace

std::string describe(const lead::Action& action) {
  return std::visit(
      Overloaded{
          [](const lead::Report& a) { return report_text(a.body); },
          [](const lead::Send& a) {
            return fmt::format("to {}: {}", a.node.text, command_text(a.command));
          },
          [](const lead::StartAttempt& a) {
            return fmt::format("start the ranks on {}: port {}, restarts {}{}{}",
                               compress_hostlist(a.nodes), a.order.master_port, a.order.restarts,
                               a.order.memory ? fmt::format(", memory of attempt {} iteration {}",
                                                            a.order.memory->attempt.value,
                                                            a.order.memory->iteration.value)
                                              : "",
                               a.order.set_load ? ", load \"" + a.order.load + "\"" : "");
          },
          [](const lead::WriteEndMark& a) { return "write the end mark" + end_text(a.mark); },
          [](const lead::GroupStacks& a) {
            return fmt::format("group the stacks of {} ranks in {}", a.ranks, a.directory);
          },
          [](const lead::Quit& a) {
            return fmt::format("quit with {} \"{}\"{}", a.goodbye.exit_code, a.goodbye.why,
                               end_text(a.goodbye.end));
          },
          [](const auto& a) { return std::string(std::decay_t<decltype(a)>::kKind); }},
      action);
}

}  // namespace stoker::lead_test
