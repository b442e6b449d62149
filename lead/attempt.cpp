// One attempt from the choice of its checkpoint and nodes to the start of its ranks.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "lead/handlers.hpp"

namespace stoker::lead {
namespace {

bool is_listed(const std::vector<NodeName>& list, const NodeName& node) {
  return std::find(list.begin(), list.end(), node) != list.end();
}

bool is_ours(const wire::Orders& orders) {
  return orders.checkpoint_format == "stoker";
}

std::string load_path(const State& state, const ChosenCheckpoint& chosen) {
  const wire::Orders& orders = state.setup.start.orders;
  const std::string& folder = state.setup.checkpoints;
  if (is_ours(orders)) return chosen.name.empty() ? "" : folder + "/" + chosen.name;
  const auto iteration = orders.resume.iteration.value;
  if (orders.checkpoint_format == "megatron")
    return fmt::format("{}/iter_{:07}", folder, iteration);
  if (orders.checkpoint_format == "deepspeed")
    return fmt::format("{}/global_step{}", folder, iteration);
  return folder;
}

wire::StartRanks start_order(const State& state, const AskingPort& asked, std::uint32_t port) {
  const wire::Orders& orders = state.setup.start.orders;
  const std::uint32_t starts = state.restarts.starts;
  wire::StartRanks order;
  order.attempt = state.attempt;
  order.groups = static_cast<std::uint32_t>(asked.nodes.size());
  order.ranks_per_node = orders.ranks_per_node;
  order.master_port = port;
  order.restarts = starts;
  const bool rollback = orders.resume.mode == wire::ResumeMode::Exact && starts == 0;
  order.set_load = is_ours(orders) || rollback;
  if (order.set_load) order.load = load_path(state, asked.chosen);
  if (asked.memory) order.memory = asked.memory->id;
  return order;
}

bool is_warm(const State& state, const std::vector<NodeName>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const NodeName& node) {
    return state.agents.at(node).standbys >= state.setup.start.orders.ranks_per_node;
  });
}

// Why no attempt may begin; "" = it may.
std::string obstacle(const State& state) {
  for (const auto& [node, agent] : state.agents)
    if (!agent.stuck.empty())
      return "a process in uninterruptible sleep cannot be killed: no attempt may start beside it; "
             "the job ends so that the next one starts elsewhere";
  const std::size_t there = eligible_nodes(state).size();
  const std::size_t needed = state.setup.start.orders.nodes;
  if (there < needed)
    return fmt::format("only {} of the {} nodes that the run needs are left in the allocation",
                       there, needed);
  return "";
}

void ask_port(Turn& turn, Why why, ChosenCheckpoint chosen) {
  State& state = turn.state;
  // A node may have been lost while the checkpoint was chosen.
  if (const std::string why_not = obstacle(state); !why_not.empty()) return leave(turn, 1, why_not);
  for (const auto& damaged : chosen.damaged)
    if (state.damaged.insert(damaged.checkpoint + damaged.why).second) turn.report(damaged);
  state.attempt = state.attempt.next();
  std::vector<NodeName> nodes = eligible_nodes(state);
  nodes.resize(turn.orders().nodes);
  for (auto& [node, samples] : state.samples) samples.ranks.clear();  // of the one before
  turn.send(nodes.front(), wire::ChoosePort{state.attempt});
  auto memory = pick_snapshot(turn, chosen, nodes);
  state.stage =
      AskingPort{std::move(why), std::move(chosen), std::move(nodes), std::move(memory), {}, {}};
}

}  // namespace

std::vector<NodeName> eligible_nodes(const State& state) {
  const wire::Start& start = state.setup.start;
  std::vector<NodeName> nodes;
  std::vector<NodeName> avoided;  // better with one of them than not at all
  for (const NodeName& node : start.nodes) {
    const Agent& agent = state.agents.at(node);
    if (!std::holds_alternative<Present>(agent.presence) || is_listed(state.done.exclude, node))
      continue;
    const bool avoid = is_listed(start.orders.exclude, node) || state.parole.poor.contains(node);
    (avoid ? avoided : nodes).push_back(node);
  }
  for (const NodeName& node : avoided)
    if (nodes.size() < start.orders.nodes) nodes.push_back(node);
  return nodes;
}

void begin_attempt(Turn& turn, Next next) {
  turn.state.stage = Looking{std::move(next)};
  turn.act(LookForEnd{});
}

void prepare(Turn& turn, Next next) {
  if (const std::string why = obstacle(turn.state); !why.empty()) return leave(turn, 1, why);
  if (begin_bench(turn, next)) return;
  if (std::holds_alternative<NotChosen>(next.choice)) next.choice = choose(turn);
  if (auto* chosen = std::get_if<ChosenCheckpoint>(&next.choice))
    return ask_port(turn, std::move(next.why), std::move(*chosen));
  turn.state.stage = Choosing{std::move(next.why)};
}

// Takes a while: the content of a large checkpoint is read. A foreign training chooses by itself.
Choice choose(Turn& turn) {
  if (!is_ours(turn.orders())) return ChosenCheckpoint{};
  turn.act(ChooseCheckpoint{});
  search_snapshots(turn);
  return BeingChosen{};
}

void take_choice(Turn& turn, ChosenCheckpoint chosen) {
  auto* choosing = turn.in<Choosing>();
  Choice* choice = nullptr;
  if (auto* looking = turn.in<Looking>()) choice = &looking->next.choice;
  if (auto* benching = turn.in<Benching>()) choice = &benching->next.choice;
  if (auto* waiting = turn.in<Waiting>()) choice = &waiting->choice;
  if (choosing == nullptr && choice == nullptr) return;
  if (!chosen.error.empty()) return leave(turn, 1, "cannot read the checkpoints: " + chosen.error);
  if (choice != nullptr)
    *choice = std::move(chosen);
  else
    ask_port(turn, Why(choosing->why), std::move(chosen));
}

// Every user can take all ports of a host. To leave would cost the run a job, and the next one
// would meet the same.
void wait_for_port(Turn& turn, const std::string& why) {
  constexpr Duration kAskAgain = 5s, kReportAgain = 1min;
  auto* asked = turn.in<AskingPort>();
  asked->again_at = turn.at + kAskAgain;
  if (asked->reported_at && turn.at - *asked->reported_at < kReportAgain) return;
  asked->reported_at = turn.at;
  turn.report(wire::MachineShort{asked->nodes.front(), why, kReportAgain + kAskAgain});
}

void ask_port_again(Turn& turn) {
  auto* asked = turn.in<AskingPort>();
  if (!std::exchange(asked->again_at, std::nullopt)) return;
  turn.send(asked->nodes.front(), wire::ChoosePort{turn.state.attempt});
}

void start_ranks(Turn& turn, AskingPort asked, std::uint32_t port) {
  State& state = turn.state;
  wire::StartRanks order = start_order(state, asked, port);
  wire::AttemptStarted event;
  event.attempt = state.attempt;
  event.nodes = asked.nodes;
  event.world_size = order.groups * order.ranks_per_node;
  const Iteration from = asked.memory ? asked.memory->id.iteration : asked.chosen.iteration;
  event.load = asked.memory ? "" : asked.chosen.name;
  if (asked.memory) event.memory = asked.memory->nodes;
  event.iteration = from;
  event.standby = is_warm(state, asked.nodes);
  event.why = asked.why.text;
  event.restart = asked.why.restart;
  turn.report(std::move(event));
  turn.act(StartAttempt{std::move(order), asked.nodes});
  state.exits.clear();
  state.beat = {};
  ++state.restarts.starts;
  if (from > state.restarts.resumed) state.restarts.own = 0;  // progress refills the budget
  state.restarts.resumed = from;
  note_resumed(state, from);
  state.loaded = asked.chosen.name;
  for (const NodeName& node : asked.nodes)
    if (const auto found = state.samples.find(node); found != state.samples.end())
      found->second.ranks.clear();
  Running running;
  running.holding = {asked.nodes.begin(), asked.nodes.end()};
  running.nodes = std::move(asked.nodes);
  running.since = turn.at;
  state.stage = std::move(running);
  fold_and_report(turn, Fold::OnEdge);
}

}  // namespace stoker::lead
