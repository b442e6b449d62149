// Gathering the agents, their connections and what they report.
#include <algorithm>
#include <fmt/format.h>

#include "common/overloaded.hpp"
#include "lead/handlers.hpp"

namespace stoker::lead {
namespace {

constexpr Duration kGatherEnough = 10s;  // then spares that have not come are not waited for
constexpr Duration kGatherLimit = 60s;
constexpr Duration kSilence = 10s;
constexpr Duration kClosedGrace = 1s;   // a closed connection: its guardians need no longer
constexpr Duration kSilentGrace = 12s;  // a silent one: it gives up by itself after 10 s

void report_lost(Turn& turn, const NodeName& node, std::string why) {
  turn.report(wire::AgentLost{node, std::move(why)});
}

void connection_closed(Turn& turn, const NodeName& node, Presence& presence, bool flooded) {
  if (!flooded) {
    presence = Lost{turn.at + kClosedGrace};
    return report_lost(turn, node, "connection closed");
  }
  presence = Closed{turn.at + kSilentGrace};
  turn.notice(
      fmt::format("the connection of {} closed while strangers flood the port: its agent has {} to "
                  "come back",
                  node.text, format_duration(kSilentGrace)));
}

void look_at_link(Turn& turn, const Link& link, Presence& presence, bool flooded) {
  // Strangers in masses take links away and slow them down: that is no fault of a node.
  const Duration silence = flooded ? 2 * kSilence : kSilence;
  const bool present = std::holds_alternative<Present>(presence);
  if (!link.up) {
    if (present) connection_closed(turn, link.node, presence, flooded);
  } else if (silence_since(turn, link.heard_at) > silence) {
    if (!present) return;
    presence = Lost{turn.at + kSilentGrace};
    report_lost(turn, link.node, fmt::format("silent for {}", format_duration(silence)));
  } else {
    presence = Present{};  // it may speak again on the same connection
  }
}

// When it is given up.
std::optional<Instant> due_of(const Presence& presence) {
  if (const auto* closed = std::get_if<Closed>(&presence)) return closed->until;
  if (const auto* lost = std::get_if<Lost>(&presence)) return lost->gone_at;
  return std::nullopt;
}

void on_clear(Turn& turn, const NodeName& node, const wire::NodeClear& report) {
  if (report.attempt != turn.state.attempt) return;
  if (auto* running = turn.in<Running>()) running->holding.erase(node);
  if (!report.stuck.empty()) {
    turn.state.agents.at(node).stuck = report.stuck;
    turn.notice(fmt::format("cannot be killed on {}: {}", node.text, report.stuck));
  }
  check_end(turn);
}

void on_port(Turn& turn, const wire::PortChosen& report) {
  auto* asked = turn.in<AskingPort>();
  if (asked == nullptr || report.attempt != turn.state.attempt) return;
  if (!report.error.empty()) return wait_for_port(turn, report.error);
  start_ranks(turn, std::move(*asked), report.port);
}

// An agent that is gone has no processes any more: its guardian has ended them.
void give_up_gone(Turn& turn) {
  auto* running = turn.in<Running>();
  if (running == nullptr) return;
  const std::size_t before = running->holding.size();
  std::erase_if(running->holding, [&](const NodeName& node) {
    if (!std::holds_alternative<Gone>(turn.state.agents.at(node).presence)) return false;
    if (const auto found = turn.state.samples.find(node); found != turn.state.samples.end())
      found->second.ranks.clear();
    return true;
  });
  if (running->holding.size() == before) return;
  if (!running->failure) running->failure = Failure{};
  stop_all(turn, wire::StopHow::Crash);
  check_end(turn);
}

// The node that was asked for a port is gone: another one is asked, for the next attempt.
void ask_again(Turn& turn) {
  auto* asked = turn.in<AskingPort>();
  if (asked == nullptr) return;
  if (!std::holds_alternative<Gone>(turn.state.agents.at(asked->nodes.front()).presence)) return;
  begin_attempt(turn, {std::move(asked->why), std::move(asked->chosen)});
}

}  // namespace

void on(Turn& turn, AgentConnected event) {
  const auto found = turn.state.agents.find(event.node);
  if (found == turn.state.agents.end()) return;
  Presence& presence = found->second.presence;
  const bool back = !std::holds_alternative<Absent>(presence);
  presence = Present{};
  turn.report(wire::AgentJoined{event.node, event.host, event.boot_id, event.pid});
  if (back) turn.notice(fmt::format("agent of {} is back", event.node.text));
  turn.send(event.node, wire::Welcome{turn.state.setup.start_path});
  gather(turn);
}

void on(Turn& turn, NodeSaid event) {
  const NodeName& node = event.node;
  if (!turn.state.agents.contains(node)) return;
  std::visit(Overloaded{[&](const wire::PortChosen& r) { on_port(turn, r); },
                        [&](const wire::RankGone& r) { on_rank_gone(turn, r); },
                        [&](const wire::NodeClear& r) { on_clear(turn, node, r); },
                        [&](wire::NodeBeat& r) { take_beat(turn, node, std::move(r)); },
                        [&](wire::NodeEvent& r) {
                          const bool saved = std::holds_alternative<wire::CheckpointSaved>(r.body);
                          if (const auto* found = std::get_if<wire::HealthSources>(&r.body))
                            on_gpus(turn, node, found->gpus.size());
                          if (const auto* audit = std::get_if<wire::ResumeAudit>(&r.body))
                            note_audit(turn.state, *audit);
                          turn.report(std::move(r.body));
                          if (saved) turn.act(TendCheckpoints{});
                        },
                        [&](const wire::StacksDone& r) { on_stacks(turn, r); },
                        [&](wire::Benched& r) { on_benched(turn, node, std::move(r)); },
                        [&](const wire::SnapshotsHeld& r) { on_snapshots(turn, node, r); },
                        [&](const wire::Signalled& r) {
                          save_and_leave(turn, fmt::format("signal {} to the agent of {}", r.signal,
                                                           node.text));
                        }},
             event.report);
}

// Only a Tick makes an agent Closed or Lost.
void look_at_links(Turn& turn, const Tick& tick) {
  for (const Link& link : tick.links) {
    const auto found = turn.state.agents.find(link.node);
    if (found == turn.state.agents.end()) continue;
    look_at_link(turn, link, found->second.presence, tick.flooded);
  }
  auto& first = turn.state.give_up_at;
  first.reset();
  for (auto& [node, agent] : turn.state.agents) {
    const auto due = due_of(agent.presence);
    if (!due) continue;
    if (turn.at < *due) {
      first = std::min(first.value_or(*due), *due);
      continue;
    }
    if (std::holds_alternative<Closed>(agent.presence))
      report_lost(turn, node, "connection closed");
    agent.presence = Gone{};
  }
  give_up_gone(turn);
  ask_again(turn);
}

void gather(Turn& turn) {
  auto* gathering = turn.in<Gathering>();
  if (gathering == nullptr) return;
  const auto& agents = turn.state.agents;
  const bool all = std::none_of(agents.begin(), agents.end(), [](const auto& a) {
    return std::holds_alternative<Absent>(a.second.presence);
  });
  const Duration waited = turn.at - gathering->since;
  if (!all && waited <= kGatherEnough) return;  // before all nodes are walked, for each that joins
  const std::size_t there = eligible_nodes(turn.state).size();
  const bool enough = there >= turn.orders().nodes;
  if (all || enough) return begin_attempt(turn, std::move(gathering->next));
  if (waited > kGatherLimit)
    leave(turn, 1,
          fmt::format("only {} of {} nodes have an agent after {}", there, turn.orders().nodes,
                      format_duration(kGatherLimit)));
}

}  // namespace stoker::lead
