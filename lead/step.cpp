// step(): dispatch, time, and the first and last events of a lead.
#include "lead/step.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>

#include "common/overloaded.hpp"
#include "lead/handlers.hpp"

namespace stoker::lead {
namespace {

// When the stage itself wants a Tick.
std::optional<Instant> due_of(const Stage& stage) {
  return std::visit(Overloaded{[](const Benching& s) { return std::optional(s.until); },
                               [](const AskingPort& s) { return s.again_at; },
                               [](const Waiting& s) { return std::optional(s.until); },
                               [](const Leaving& s) { return std::optional(s.look_at); },
                               [](const Concluding& s) {
                                 const auto* lingering = std::get_if<Lingering>(&s.part);
                                 return lingering == nullptr ? std::nullopt
                                                             : std::optional(lingering->look_at);
                               },
                               [](const auto&) { return std::optional<Instant>(); }},
                    stage);
}

const Choice* choice_of(const Stage& stage) {
  return std::visit(Overloaded{[](const Gathering& s) { return &s.next.choice; },
                               [](const Looking& s) { return &s.next.choice; },
                               [](const Benching& s) { return &s.next.choice; },
                               [](const Waiting& s) { return &s.choice; },
                               [](const auto&) -> const Choice* { return nullptr; }},
                    stage);
}

const ChosenCheckpoint* chosen_of(const Stage& stage) {
  if (const auto* asking = std::get_if<AskingPort>(&stage)) return &asking->chosen;
  const Choice* choice = choice_of(stage);
  return choice == nullptr ? nullptr : std::get_if<ChosenCheckpoint>(choice);
}

void on_stage_due(Turn& turn, const Tick& tick) {
  const auto due = due_of(turn.state.stage);
  if (due && turn.at < *due) return;
  if (turn.in<Gathering>() != nullptr) return gather(turn);
  if (turn.in<Benching>() != nullptr) return end_bench(turn);
  if (turn.in<AskingPort>() != nullptr) return ask_port_again(turn);
  if (turn.in<Waiting>() != nullptr) return orphaned(turn);
  if (turn.in<Concluding>() != nullptr) return linger(turn, tick);
  if (turn.in<Leaving>() != nullptr) return try_goodbye(turn, tick);
}

}  // namespace

State initial_state(Setup setup, ChosenCheckpoint resume,
                    const std::optional<wire::Control>& before, std::optional<Instant> leave_at) {
  State state;
  if (before) state.done = *before;
  state.done.halt.clear();
  state.done.level = wire::Level::Run;
  state.done.exclude.clear();
  const wire::Orders& orders = setup.start.orders;
  state.parole.paroled.insert(orders.bench.begin(), orders.bench.end());
  state.parole.preflight = orders.preflight;
  state.epoch = std::max(orders.epoch, state.done.epoch);
  for (const NodeName& node : setup.start.nodes) state.agents[node];
  state.agents[setup.node].presence = Present{};
  state.stage = Gathering{{}, {{"first start"}, std::move(resume)}};
  state.leave_at = leave_at;
  state.setup = std::move(setup);
  return state;
}

void on(Turn& turn, Began event) {
  const wire::Start& start = turn.start();
  const wire::Control& done = turn.state.done;
  wire::GenerationStarted first;
  first.generation = start.generation;
  first.parent = start.parent;
  first.iteration = start.iteration;
  first.token = start.token;
  first.job = start.job;
  first.restart = start.restart;
  first.order = start.orders.number;
  first.nodes = start.nodes;
  first.boot_id = event.boot_id;
  first.digests = start.orders.digests;
  first.asked = wire::Asked{done.save, done.stacks, done.restart};
  turn.report(std::move(first));
  turn.report(wire::AgentJoined{turn.state.setup.node, event.host, event.boot_id, event.pid});
  if (auto* gathering = turn.in<Gathering>()) gathering->since = turn.at;
  turn.state.beat_at = turn.at + turn.state.setup.beat_every;
}

void on(Turn& turn, Tick event) {
  State& state = turn.state;
  if (turn.in<Leaving>() == nullptr) look_at_links(turn, event);
  if (turn.at >= state.beat_at) {
    state.beat_at = turn.at + state.setup.beat_every;
    for (const Link& link : event.links) turn.send(link.node, wire::Ping{});
    fold_and_report(turn, Fold::Always);
  }
  if (state.leave_at && turn.at >= *state.leave_at) {
    state.leave_at.reset();
    save_and_leave(turn, "the time limit");
  }
  if (state.stacks && turn.at >= state.stacks->until) group_stacks(turn);
  tend_search(turn);
  on_stage_due(turn, event);
}

void on(Turn& turn, Signal event) {
  if (event.number == SIGINT && ++turn.state.interrupts > 1)
    return leave_now(turn, "interrupted twice");
  save_and_leave(turn, fmt::format("signal {} ({})", event.number, event.name));
}

void on(Turn& turn, KeeperGone) {
  leave(turn, 128 + SIGKILL, "the agent's keeper was killed");
}

Step step(State state, Event event) {
  Step result{std::move(state), {}};
  Turn turn{result.state, event.at, event.wall, {}};
  if (turn.in<Left>() == nullptr) {
    note_standstill(turn);
    std::visit([&](auto& body) { on(turn, std::move(body)); }, event.body);
  }
  result.actions = std::move(turn.actions);
  return result;
}

std::optional<Instant> wake_at(const State& state) {
  if (std::holds_alternative<Left>(state.stage)) return std::nullopt;
  Instant wake = state.beat_at;
  const auto earlier = [&wake](const std::optional<Instant>& at) {
    if (at) wake = std::min(wake, *at);
  };
  earlier(state.leave_at);
  earlier(due_of(state.stage));
  if (state.stacks) earlier(state.stacks->until);
  if (state.search && !state.search->waiting.empty()) earlier(state.search->until);
  if (!std::holds_alternative<Leaving>(state.stage)) earlier(state.give_up_at);
  return wake;
}

std::set<wire::CheckpointId> checkpoints_in_use(const State& state) {
  const ChosenCheckpoint* chosen = chosen_of(state.stage);
  std::set<wire::CheckpointId> used;
  for (const std::string& name : {state.loaded, chosen != nullptr ? chosen->name : std::string()})
    if (const auto id = wire::parse_checkpoint_name(name)) used.insert(*id);
  return used;
}

bool is_halted(const std::optional<OrderNumber>& order, const wire::Control& control) {
  return order && !control.halt.empty() && !(*order > control.halt_order);
}

bool trains_with_stoker(const wire::Orders& orders) {
  const std::string& program = orders.command.front();
  return program.substr(program.rfind('/') + 1) == "stoker-train";
}

}  // namespace stoker::lead
