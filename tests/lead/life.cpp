#include "tests/lead/life.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/overloaded.hpp"

namespace stoker::lead_test {
namespace {

constexpr Duration kFaults = 10min;
constexpr Duration kHeals = 5min;
constexpr Duration kGuardian = 900ms;  // an agent that dies takes its ranks with it
constexpr Duration kGivesUp = 10s;     // an agent without its lead
constexpr std::size_t kRanksPerNode = 2;
constexpr WallTime kNoon{std::chrono::seconds(1'777'636'800)};

NodeName name_of_node(std::size_t i) {
  return NodeName(fmt::format("n{:02}", i + 1));
}

wire::RankExited killed() {
  wire::RankExited exit;
  exit.signal = 9;
  exit.expected = true;
  return exit;
}

}  // namespace

Life::Life(std::uint64_t seed, Guard broken) : broken_(broken), random_(seed) {
  lead::Setup setup;
  wire::Orders& orders = setup.start.orders;
  setup.start.run = RunName("demo");
  setup.start.generation = Generation(2);
  for (std::size_t i = 0; i < 3 + random_.below(3); ++i)
    setup.start.nodes.push_back(name_of_node(i));
  setup.node = setup.start.lead = setup.start.nodes.front();
  setup.order = orders.number = OrderNumber(1);
  setup.beat_every = 1s;
  setup.checkpoints = "checkpoints";
  orders.epoch = Epoch(1);
  orders.nodes = 2;
  orders.ranks_per_node = kRanksPerNode;
  orders.restart_budget = 3 + static_cast<std::uint32_t>(random_.below(10));
  orders.orphan_grace = random_.chance(300) ? Duration(0s) : random_.between(1s, 60s);
  orders.command = {"stoker-train"};
  if (random_.chance(300)) orders.bench = {setup.start.nodes[1]};
  for (const NodeName& node : setup.start.nodes) nodes_[node].link.node = node;
  control_.run = setup.start.run;
  control_.epoch = Epoch(1);
  control_.generation = setup.start.generation;
  state_ = lead::initial_state(std::move(setup), {}, {}, {});
}

void Life::wrong(const std::string& what) {
  if (wrong_.empty())
    wrong_ = fmt::format("{}: {}", format_duration(time_.now() - Instant{}), what);
}

std::string Life::live() {
  feed(lead::Began{"host", "boot", 1});
  for (auto& [name, node] : nodes_)
    if (name != state_.setup.node)
      after(random_.between(0s, 15s), [this, node_name = name] {
        nodes_[node_name].link.up = true;
        feed(lead::AgentConnected{node_name, "host", "boot", 1});
      });
  plan_mishap();
  time_.run_until(Instant{} + kFaults, [this] { return !wrong_.empty() || left_; });
  healed_ = true;
  control_.restart += 1;  // the daemon is there
  if (!left_) feed(lead::ControlRead{control_});
  time_.run_until(Instant{} + kFaults + kHeals, [this] { return !wrong_.empty() || left_; });
  const bool runs = std::holds_alternative<lead::Running>(state_.stage);
  if (!left_ && !runs)
    wrong(fmt::format("nothing goes wrong any more, but it is {}", stage_name(state_.stage)));
  return wrong_;
}

// Often at once, so that what may overtake something does.
Duration Life::soon(Duration most) {
  return random_.chance(400) ? Duration(5ms) : random_.between(5ms, most);
}

NodeName Life::any() {
  return name_of_node(random_.below(nodes_.size()));
}

lead::Tick Life::look() const {
  lead::Tick tick;
  for (const auto& [name, node] : nodes_) {
    if (name == state_.setup.node || node.link.heard_at == Instant{}) continue;
    tick.links.push_back(node.link);
    if (node.link.up && !node.silent) tick.links.back().heard_at = time_.now();
  }
  tick.own_clear = nodes_.at(state_.setup.node).ranks.empty();
  return tick;
}

// The state with one of its rules taken out.
void Life::break_guard() {
  auto* running = std::get_if<lead::Running>(&state_.stage);
  if (broken_ == Guard::LostGrace)
    for (auto& [name, agent] : state_.agents)
      if (auto* lost = std::get_if<lead::Lost>(&agent.presence)) lost->gone_at = time_.now();
  if (broken_ == Guard::OneAttempt && running != nullptr &&
      !std::holds_alternative<lead::GoOn>(running->ask))
    running->holding.clear();
  if (broken_ == Guard::SnapshotLine)
    for (auto& [attempt, through] : state_.snapshots_through) through = wire::kNoBound;
  if (auto& search = state_.search; broken_ == Guard::SnapshotWhole && search)
    for (std::size_t i = 0, n = search->held.size(); i < n && n < 20; ++i)
      for (std::uint32_t shard = 0; shard < search->held[i].snapshot.shards; ++shard) {
        search->held.push_back(search->held[i]);
        search->held.back().snapshot.shard = shard;
      }
}

void Life::feed(lead::EventBody body) {
  waiting_.push_back(std::move(body));
  if (stepping_) return;
  stepping_ = true;
  while (!waiting_.empty()) {
    lead::EventBody next = std::move(waiting_.front());
    waiting_.pop_front();
    lead::Step step = lead::step(std::move(state_),
                                 {time_.now(), kNoon + (time_.now() - Instant{}), std::move(next)});
    state_ = std::move(step.state);
    stages_.insert(stage_name(state_.stage));
    for (const lead::Action& action : step.actions) perform(action);
    break_guard();
  }
  stepping_ = false;
  wake();
}

void Life::wake() {
  const auto at = lead::wake_at(state_);
  if (!at || (woken_ && *woken_ <= *at && *woken_ > time_.now())) return;
  woken_ = std::max(*at, time_.now() + 1ms);
  time_.at(*woken_, [this, planned = *woken_] {
    if (woken_ == planned) woken_.reset();
    if (!left_) feed(look());
  });
}

void Life::perform(const lead::Action& action) {
  std::visit(Overloaded{[this](const lead::Report& a) {
                          if (const auto* ended = std::get_if<wire::AttemptEnded>(&a.body);
                              ended != nullptr && ended->end && !durable_)
                            wrong("the end is reported, and its mark is not durable");
                          if (const auto* e = std::get_if<wire::AttemptStarted>(&a.body))
                            note_start(*e);
                        },
                        [this](const lead::Send& a) { command(a.node, a.command); },
                        [this](const lead::StartAttempt& a) { start(a); },
                        [this](const lead::ChooseCheckpoint&) {
                          after(soon(5s), [this] {
                            lead::ChosenCheckpoint chosen{"", Iteration(seconds()), {}, ""};
                            if (!left_) feed(lead::CheckpointChosen{chosen});
                          });
                        },
                        [this](const lead::LookForEnd&) { feed(lead::EndLooked{}); },
                        [this](const lead::WriteEndMark& a) {
                          if (broken_ == Guard::MarkFirst)
                            return feed(lead::EndWritten{a.mark, ""});
                          after(random_.between(1ms, 20s), [this, mark = a.mark] {
                            durable_ = true;
                            if (!left_) feed(lead::EndWritten{mark, ""});
                          });
                        },
                        [this](const lead::KillAll&) {
                          end_ranks(state_.setup.node, random_.between(1ms, 2s), killed());
                        },
                        [this](const lead::Quit& a) {
                          left_ = true;
                          if (a.goodbye.end && !durable_)
                            wrong("the goodbye reports an end whose mark is not durable");
                        },
                        [](const auto&) {}},
             action);
}

void Life::start(const lead::StartAttempt& action) {
  for (const auto& [name, node] : nodes_)
    for (const auto& [rank, attempt] : node.ranks)
      wrong(fmt::format("attempt {} starts while rank {} of attempt {} is alive on {}",
                        action.order.attempt.value, rank.value, attempt.value, name.text));
  check_memory(action);
  plan_snapshot(action);
  wire::StartRanks order = action.order;
  for (const NodeName& name : action.nodes) {
    command(name, order);
    ++order.group_rank;
  }
}

void Life::start_ranks(Node& node, const wire::StartRanks& order) {
  if (!node.ranks.empty()) return;  // refused
  ++node.stops;
  node.attempt = order.attempt;
  for (std::uint32_t i = 0; i < order.ranks_per_node; ++i)
    node.ranks[Rank(order.group_rank * order.ranks_per_node + i)] = order.attempt;
}

void Life::command(const NodeName& name, const wire::NodeCommand& command) {
  Node& node = nodes_.at(name);
  if (!node.agent || (name != state_.setup.node && !node.link.up)) return;
  if (node.silent)
    return node.orders.push_back([this, name, order = command] { this->command(name, order); });
  if (const auto* starting = std::get_if<wire::StartRanks>(&command)) start_ranks(node, *starting);
  if (const auto* port = std::get_if<wire::ChoosePort>(&command))
    after(soon(3s), [this, name, attempt = port->attempt] {
      say(name, wire::PortChosen{attempt, 20000, ""});
    });
  if (std::holds_alternative<wire::ListSnapshots>(command)) list_snapshots(name);
  if (const auto* stop = std::get_if<wire::StopRanks>(&command);
      stop != nullptr && stop->attempt == node.attempt) {
    wire::RankExited exit = killed();
    if (stop->how != wire::StopHow::Crash) exit.signal = 0, exit.code = 10;
    end_ranks(name, soon(6s), exit);
  }
  if (std::holds_alternative<wire::BenchNode>(command) && !random_.chance(100))
    after(random_.between(1s, 20s), [this, name] {
      wire::Benched answer;
      answer.figures["gemm_f32"] = random_.chance(100) ? 0.1 : 1.0;
      say(name, std::move(answer));
    });
  if (std::holds_alternative<wire::LeaveWith>(command)) {
    end_ranks(name, random_.between(1ms, 2s), killed());
    after(3s, [this, name] { kill_node(name); });
  }
}

// All ranks of the node end some time later, then the proof that nothing is left.
void Life::end_ranks(const NodeName& name, Duration wait, wire::RankExited how) {
  after(wait, [this, name, how, stops = nodes_.at(name).stops]() mutable {
    Node& node = nodes_.at(name);
    if (node.stops != stops || node.ranks.empty()) return;
    how.attempt = node.attempt;
    how.node = name;
    const auto ended = std::exchange(node.ranks, {});
    for (const auto& [rank, attempt] : ended) {
      how.rank = rank;
      say(name, wire::RankGone{how});
    }
    say(name, wire::NodeClear{node.attempt, ""});
  });
}

void Life::say(const NodeName& name, wire::NodeReport report) {
  Node& node = nodes_.at(name);
  if (!node.agent) return;
  past_.emplace_back(name, report);
  if (node.silent) return node.held.push_back(std::move(report));
  deliver(name, std::move(report));
}

void Life::deliver(const NodeName& name, wire::NodeReport report) {
  if (left_) return;
  if (broken_ == Guard::StaleAttempt) {
    if (auto* clear = std::get_if<wire::NodeClear>(&report)) clear->attempt = state_.attempt;
    if (auto* gone = std::get_if<wire::RankGone>(&report)) gone->exit.attempt = state_.attempt;
  }
  nodes_.at(name).link.heard_at = time_.now();
  if (broken_ == Guard::AllClear && std::holds_alternative<wire::NodeClear>(report))
    for (const auto& [other, node] : nodes_) feed(lead::NodeSaid{other, report});
  feed(lead::NodeSaid{name, std::move(report)});
}

void Life::kill_node(const NodeName& name) {
  Node& node = nodes_.at(name);
  node.agent = false;
  node.link.up = false;
  ++node.stops;
  after(random_.between(1ms, kGuardian), [this, name] { nodes_.at(name).ranks.clear(); });
  if (!left_) feed(look());
}

// What is on its way waits. An agent without a message of its lead for long ends its ranks and
// leaves.
void Life::cut_off(const NodeName& name) {
  Node& node = nodes_.at(name);
  node.silent = true;
  node.link.heard_at = std::max(node.link.heard_at, time_.now());
  const Duration lasts = random_.between(1s, 15s);
  if (lasts > kGivesUp) {
    node.agent = false;
    return after(kGivesUp, [this, name] { nodes_.at(name).ranks.clear(); });
  }
  after(lasts, [this, name] {
    Node& then = nodes_.at(name);
    then.silent = false;
    for (auto orders = std::exchange(then.orders, {}); !orders.empty(); orders.pop_front())
      orders.front()();
    for (auto held = std::exchange(then.held, {}); !held.empty(); held.pop_front())
      deliver(name, held.front());
  });
}

void Life::plan_mishap() {
  after(random_.exponential(8s) + 1ms, [this] {
    if (healed_ || left_) return;
    mishap();
    plan_mishap();
  });
}

void Life::write_control() {
  const std::uint64_t kind = random_.below(100);
  if (kind < 60) ++control_.restart;
  if (kind >= 60 && kind < 75) ++control_.save;
  if (kind >= 75 && kind < 90) ++control_.stacks;
  if (kind == 90) control_.level = wire::Level::SaveAndLeave;
  if (kind == 91) control_.level = wire::Level::LeaveNow;
  if (kind >= 92) control_.exclude = {any()};
  control_.restart_of = random_.chance(500) ? state_.attempt : Attempt{};
  feed(lead::ControlRead{control_});
}

void Life::mishap() {
  const NodeName name = any();
  Node& node = nodes_.at(name);
  const bool own = name == state_.setup.node;
  const std::uint64_t kind = random_.below(100);
  if (kind < 30) return write_control();
  if (kind < 55) {  // a rank dies; the others of its node wait for the lead's word
    if (node.ranks.empty()) return;
    wire::RankExited exit = killed();
    exit.expected = false;
    exit.attempt = node.attempt;
    exit.node = name;
    exit.rank = node.ranks.begin()->first;
    node.ranks.erase(node.ranks.begin());
    say(name, wire::RankGone{exit});
    if (node.ranks.empty()) say(name, wire::NodeClear{node.attempt, ""});
  } else if (kind < 70) {
    if (!own && !node.silent && node.agent && node.link.up) cut_off(name);
  } else if (kind < 74) {
    if (!own && node.agent) kill_node(name);
  } else if (kind < 92) {  // a frame of before turns up again
    if (past_.empty()) return;
    const auto& [from, report] = past_[random_.below(past_.size())];
    if (std::holds_alternative<wire::NodeClear>(report) ||
        std::holds_alternative<wire::RankGone>(report))
      deliver(NodeName(from), wire::NodeReport(report));
  } else if (kind < 98) {  // all ranks end well
    wire::RankExited exit;
    for (const auto& [of_all, unused] : nodes_) end_ranks(of_all, 1ms, exit);
  } else if (kind == 98) {
    feed(lead::SwitchLeft{"stop", "bob", ""});
  } else {
    feed(lead::KeeperGone{});
  }
}

}  // namespace stoker::lead_test
