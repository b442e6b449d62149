// The shell of the simulated lead: what its agents and files say becomes events of lead::step, and
// its actions are performed. It decides nothing; what nodes do with a command takes its time.
#include <algorithm>
#include <csignal>
#include <fmt/format.h>

#include "common/overloaded.hpp"
#include "sim/training/training.hpp"
#include "wire/lineage.hpp"

namespace stoker::sim {
namespace {

// 2026-01-01T00:00:00Z
constexpr WallTime kWall{std::chrono::seconds(1'767'225'600)};
constexpr Duration kTickApart = 250ms;  // the least between two that nothing called for
constexpr Duration kGatherLook = 1s;
constexpr Duration kAgentsLeave = 1s;
constexpr Duration kStacks = 2s;
constexpr std::uint32_t kDiesAtEnd = 200;  // of 1,000: leads that die behind the end mark

}  // namespace

void Training::feed(SimGeneration& g, lead::EventBody body) {
  g.lead.waiting.push_back(std::move(body));
  run(g);
}

void Training::run(SimGeneration& g) {
  SimLead& lead = g.lead;
  if (lead.stepping || g.stand.since) return;
  lead.stepping = true;
  while (!lead.waiting.empty() && g.alive) {
    lead::EventBody next = std::move(lead.waiting.front());
    lead.waiting.pop_front();
    if (std::holds_alternative<lead::Tick>(next)) lead.ticked = time_.now();
    lead::Step step = lead::step(std::move(lead.state),
                                 {time_.now(), kWall + (time_.now() - Instant{}), std::move(next)});
    lead.state = std::move(step.state);
    for (const lead::Action& action : step.actions) perform(g, action);
    perform_on_nodes(g);
    break_guard(g);
  }
  lead.waiting.clear();
  lead.stepping = false;
  wake(g);
}

// The state with one of its rules taken out.
void Training::break_guard(SimGeneration& g) const {
  auto* running = std::get_if<lead::Running>(&g.lead.state.stage);
  if (broken_ == Guard::EarlyStart && running != nullptr && g.stopping) running->holding.clear();
}

// While agents are gathered it looks each second: no event says that it has enough.
void Training::wake(SimGeneration& g) {
  if (!g.alive) return;
  SimLead& lead = g.lead;
  auto at = lead::wake_at(lead.state);
  if (!at) return;
  if (std::holds_alternative<lead::Gathering>(lead.state.stage))
    at = std::min(*at, lead.ticked + kGatherLook);
  const Instant when = std::max({*at, lead.ticked + kTickApart, time_.now() + 1ms});
  if (lead.woken && *lead.woken <= when && *lead.woken > time_.now()) return;
  lead.woken = when;
  time_.at(when, [this, number = g.number, when] {
    SimGeneration& then = generations_.at(number);
    if (!then.alive || then.lead.woken != when) return;
    then.lead.woken.reset();
    if (then.stand.since) return;  // go_on
    feed(then, look(then));
  });
}

lead::Tick Training::look(const SimGeneration& g) const {
  lead::Tick tick;
  tick.links.reserve(g.lead.connected.size());
  for (const NodeName& node : g.lead.connected) {
    const auto silent = g.lead.silent.find(node);
    const bool dead = silent != g.lead.silent.end();
    const Instant heard = g.stand.ended == time_.now() ? g.stand.began : time_.now();
    tick.links.push_back({node, !g.lead.left.contains(node), dead ? silent->second : heard});
  }
  tick.own_clear = !g.busy.contains(g.host());
  tick.archived = !g.copies;
  return tick;
}

void Training::perform(SimGeneration& g, const lead::Action& action) {
  std::visit(
      Overloaded{
          [&](const lead::Report& a) {
            if (!std::holds_alternative<wire::Beat>(a.body)) tell(g, a.body);
          },
          [&](const lead::Send& a) { command(g, a.node, a.command); },
          [&](const lead::StartAttempt& a) { start_ranks(g, a); },
          [&](const lead::ChooseCheckpoint&) {
            later(g, random_.between(100ms, 5s), [this](SimGeneration& then) {
              feed(then, lead::CheckpointChosen{
                             choose(then.lineage(), then.orders().verify_checkpoints)});
            });
          },
          [&](const lead::LookForEnd&) { feed(g, lead::EndLooked{}); },
          [&](const lead::WriteEndMark& a) { write_end(g, a.mark); },
          [](const lead::SetKillSwitch&) {},
          [&](const lead::GroupStacks& a) {
            wire::StacksWritten written;
            written.directory = a.directory;
            written.ranks = a.ranks;
            written.groups = g.odd ? 2 : 1;
            if (g.odd)
              written.odd = {{*g.odd, g.attempt_nodes[g.odd->value / g.orders().ranks_per_node]}};
            tell(g, std::move(written));
          },
          [&](const lead::TendCheckpoints&) {
            archive(g);
            prune(g);
          },
          [&](const lead::KillAll&) { g.lead.all_leave = true; },
          [&](const lead::Quit& a) {
            tell(g, a.goodbye);
            account(g);
            g.alive = false;
            ++g.serial;
            cluster_.task_left(g.job, g.task, a.goodbye.exit_code);
          }},
      action);
}

// A dead node receives nothing. All nodes of one step do the same: they are asked together.
void Training::command(SimGeneration& g, const NodeName& node, const wire::NodeCommand& command) {
  if (g.lead.silent.contains(node) || g.lead.left.contains(node)) return;
  std::visit(
      Overloaded{[&](const wire::ChoosePort& c) {
                   later(g, random_.between(1ms, 500ms), [this, node, c](SimGeneration& then) {
                     if (!then.lead.silent.contains(node))
                       report(then, node, wire::PortChosen{c.attempt, 29500, ""});
                   });
                 },
                 [&](const wire::StopRanks& c) {
                   if (c.attempt == g.attempt) g.lead.stop = c.how;
                 },
                 [&](const wire::SaveNow& c) { g.lead.saves_asked = c.value; },
                 [&](const wire::TakeStacks& c) { g.lead.stacks = c.directory; },
                 [&](const wire::BenchNode&) { g.lead.to_bench.push_back(node); },
                 [&](const wire::ListSnapshots&) { list_snapshots(g, node); },
                 [](const auto&) {}},  // LeaveWith comes with KillAll; StartRanks is StartAttempt
      command);
}

void Training::perform_on_nodes(SimGeneration& g) {
  SimLead& lead = g.lead;
  if (const auto how = std::exchange(lead.stop, std::nullopt)) stop_ranks(g, *how);
  if (const auto value = std::exchange(lead.saves_asked, 0)) save_now(g, value);
  if (const auto directory = std::exchange(lead.stacks, ""); !directory.empty())
    take_stacks(g, directory);
  if (auto nodes = std::exchange(lead.to_bench, {}); !nodes.empty()) bench(g, std::move(nodes));
  if (std::exchange(lead.all_leave, false)) agents_leave(g);
}

// A frame reaches the lead. Without its guard, one of an attempt before counts for the newest.
void Training::report(SimGeneration& g, const NodeName& node, wire::NodeReport report) {
  if (broken_ == Guard::StaleAttempt) {
    if (auto* clear = std::get_if<wire::NodeClear>(&report)) clear->attempt = g.lead.state.attempt;
    if (auto* gone = std::get_if<wire::RankGone>(&report))
      gone->exit.attempt = g.lead.state.attempt;
  }
  feed(g, lead::NodeSaid{node, std::move(report)});
}

// The mark comes before the words; some leads die in between.
void Training::write_end(SimGeneration& g, const wire::EndMark& mark) {
  later(g, 50ms, [this, mark](SimGeneration& then) {
    then.end = mark;
    hooks_.ends(then);
    if (random_.chance(kDiesAtEnd)) return die(then);
    feed(then, lead::EndWritten{mark, ""});
  });
}

void Training::bench(SimGeneration& g, std::vector<NodeName> nodes) {
  later(g, random_.between(5s, 15s), [this, nodes = std::move(nodes)](SimGeneration& then) {
    for (const NodeName& node : nodes) {
      if (then.lead.silent.contains(node)) continue;
      wire::Benched answer;
      answer.figures["gemm_f32"] = cluster_.slow().contains(node) ? 140.0 / 149 : 1;
      then.lead.waiting.push_back(lead::NodeSaid{node, std::move(answer)});
    }
    run(then);
  });
}

void Training::take_stacks(SimGeneration& g, const std::string& directory) {
  later(g, kStacks, [this, directory](SimGeneration& then) {
    const std::uint32_t ranks = then.orders().ranks_per_node;
    for (const NodeName& node : then.attempt_nodes)
      if (!then.lead.silent.contains(node))
        then.lead.waiting.push_back(lead::NodeSaid{node, wire::StacksDone{directory, ranks}});
    run(then);
  });
}

void Training::agents_leave(SimGeneration& g) {
  halt(g);
  later(g, kAgentsLeave, [this](SimGeneration& then) {
    then.busy.clear();
    then.lead.left.insert(then.lead.connected.begin(), then.lead.connected.end());
    feed(then, look(then));
  });
}

void Training::send_beat(SimGeneration& g) {
  if (g.attempt.value == 0 || g.stage == Stage::Waiting) return;
  g.sampled = std::max(g.sampled, completed(g).value);
  auto beats = samples(g);
  beats[g.host()];  // the lead's own agent beats also without ranks
  for (auto& [node, ranks] : beats) {
    const bool linked = node == g.host() || g.lead.connected.contains(node);
    if (!linked || g.lead.silent.contains(node)) continue;
    wire::NodeBeat beat;
    beat.attempt = g.attempt;
    beat.ranks = std::move(ranks);
    if (const auto found = g.memory.find(node); found != g.memory.end())
      beat.snapshots = static_cast<std::uint32_t>(found->second.size());
    feed(g, lead::NodeSaid{node, std::move(beat)});
  }
}

}  // namespace stoker::sim
