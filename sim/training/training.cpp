// Claims, generations, and what the files of the run say.
#include "sim/training/training.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "wire/exit_code.hpp"
#include "wire/lineage.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kCachedAtMost = 60s;  // nfs(5): acregmax, acdirmax
constexpr Duration kLook = 5s;
constexpr Duration kPredecessorLimit = 90s;  // as worker/agent/run.cpp
// Digests are folded when the daemon looks (Universe::digests); the lead's own beats between them
// would only cost time.
constexpr Duration kBeatEvery = 1h;
constexpr std::uint32_t kStartedTwice = 30;  // of 1,000: slurmctld sends a launch again
const std::string kDirectory = "/runs/sim/";

// A suspended one is silent, and learns when it goes on that another one has begun.
bool is_heard(const SimGeneration& g) {
  return g.alive && !g.zombie && !g.stand.since;
}

wire::Start start_of(const SimJob& job, std::uint32_t task, wire::Orders orders) {
  wire::Start start;
  start.run = orders.run;
  start.token = Token(job.comment);
  start.job = {job.id, task};
  start.restart = job.state.at(task).restarts;
  start.nodes = job.state.at(task).nodes;
  start.lead = start.nodes.front();
  start.orders = std::move(orders);
  return start;
}

}  // namespace

Training::Training(Timeline& time, Random& random, Cluster& cluster, SimFiles& files,
                   const Scenario& scenario, Guard broken, Hooks hooks)
    : time_(time),
      random_(random),
      cluster_(cluster),
      files_(files),
      scenario_(scenario),
      broken_(broken),
      hooks_(std::move(hooks)) {}

SimGeneration* Training::live() {
  if (generations_.empty()) return nullptr;
  SimGeneration& newest = generations_.rbegin()->second;
  return newest.alive ? &newest : nullptr;
}

void Training::tell(SimGeneration& g, wire::AgentBody body) {
  wire::AgentEvent event;
  const auto skew = skews_.find(g.host());
  event.at = time_.now() + (skew == skews_.end() ? Duration(0s) : skew->second);
  event.body = std::move(body);
  hooks_.line(g.number, wire::format_event_line(event));
}

void Training::later(SimGeneration& g, Duration wait, std::function<void(SimGeneration&)> what) {
  time_.after(wait, [this, number = g.number, stood = g.stand.all, what = std::move(what)] {
    SimGeneration& then = generations_.at(number);
    if (!then.alive) return;
    const Duration owed = then.stand.all - stood;
    if (owed > 0ns) return later(then, owed, what);
    what(then);
  });
}

void Training::plan(SimGeneration& g, Duration wait, std::function<void(SimGeneration&)> what) {
  later(g, wait, [serial = g.serial, what = std::move(what)](SimGeneration& then) {
    if (then.serial == serial) what(then);
  });
}

// Of several that begin for one task, the first one to make its claim goes on.
void Training::job_started(const SimJob& job, std::uint32_t task) {
  const auto claim = [this, id = job.id, task] {
    const auto found = cluster_.jobs().find(id);
    if (found == cluster_.jobs().end()) return;
    const SimTask& now = found->second.state.at(task);
    if (now.state != core::JobState::Running) return;
    if (!cluster_.is_up(now.nodes.front())) return;
    const Token token(found->second.comment);
    const bool first = claims_.insert(wire::claim_name(token, task, now.restarts)).second;
    if (first || broken_ == Guard::Claim) await_predecessors(id, task);
  };
  time_.after(scenario_.cluster.boot, claim);
  if (random_.chance(kStartedTwice))
    time_.after(scenario_.cluster.boot + random_.between(1s, 30s), claim);
}

// As worker/agent/node/predecessor.hpp: nothing begins beside a generation that is heard.
void Training::await_predecessors(std::uint64_t job, std::uint32_t task) {
  const auto found = cluster_.jobs().find(job);
  if (found == cluster_.jobs().end()) return;
  const SimTask& now = found->second.state.at(task);
  if (now.state != core::JobState::Running) return;
  const bool heard = std::any_of(generations_.begin(), generations_.end(),
                                 [](const auto& entry) { return is_heard(entry.second); });
  if (!heard || broken_ == Guard::Claim) return mint(job, task);
  if (time_.now() - now.started >= kPredecessorLimit)
    return cluster_.task_left(job, task, wire::kAgentClaimed);
  time_.after(kLook, [this, job, task] { await_predecessors(job, task); });
}

// The newest good checkpoint of this ancestry. Without the fence: simply the highest number.
lead::ChosenCheckpoint Training::choose(const wire::Lineage& lineage, bool verify) const {
  const bool fenced = broken_ != Guard::Fencing && broken_ != Guard::Lineage;
  const SimCheckpoint* best = nullptr;
  for (const SimCheckpoint& c : checkpoints_) {
    if (fenced && !wire::accepts(lineage, c.id.generation, c.id.iteration)) continue;
    if (c.damaged && verify) continue;
    if (best == nullptr || best->id < c.id) best = &c;
  }
  lead::ChosenCheckpoint chosen;
  if (best != nullptr) {
    chosen.name = wire::checkpoint_name(best->id.iteration, best->id.generation);
    chosen.iteration = best->id.iteration;
    if (best->damaged) hooks_.broken(fmt::format("resumes from {}, which is damaged", chosen.name));
  }
  for (const SimCheckpoint& c : checkpoints_)
    if (verify && c.damaged && c.id.iteration > chosen.iteration &&
        wire::accepts(lineage, c.id.generation, c.id.iteration))
      chosen.damaged.push_back({wire::checkpoint_name(c.id.iteration, c.id.generation),
                                "shard-0001.bin: XXH3 differs from the manifest"});
  return chosen;
}

const std::optional<wire::Orders>& Training::newest_orders(bool seen) {
  static const std::optional<wire::Orders> none;
  const std::string folder = kDirectory + "orders/";
  auto at = files_.content.lower_bound(folder + "~");  // behind all numbers
  while (at != files_.content.begin() && (--at)->first.starts_with(folder)) {
    const auto hidden = hidden_until_.find(at->first);
    if (seen && hidden != hidden_until_.end() && hidden->second > time_.now()) continue;
    if (at->second != orders_text_) {
      orders_text_ = at->second;
      const auto orders = from_json_text<wire::Orders>(orders_text_, at->first);
      orders_ = orders ? std::optional(*orders) : std::nullopt;
    }
    return orders_;
  }
  return none;
}

void Training::orders_written(OrderNumber number) {
  if (hooks_.late())
    hidden_until_[fmt::format("{}orders/{:06}.json", kDirectory, number.value)] =
        time_.now() + random_.between(1s, kCachedAtMost);
}

// The agent waits for the orders of its own submission, which the file system may show late.
void Training::mint(std::uint64_t job, std::uint32_t task, int waited) {
  const auto& orders = newest_orders();
  const SimJob& submitted = cluster_.jobs().at(job);
  const std::string& token = submitted.comment;  // "run-ORDER-digits"
  const OrderNumber submission(
      static_cast<std::uint32_t>(std::strtoul(token.c_str() + token.find('-') + 1, nullptr, 10)));
  if ((!orders || orders->number < submission) && waited * kLook <= kCachedAtMost) {
    time_.after(kLook, [this, job, task, waited] {
      const auto found = cluster_.jobs().find(job);
      if (found != cluster_.jobs().end() &&
          found->second.state.at(task).state == core::JobState::Running)
        mint(job, task, waited + 1);
    });
    return;
  }
  if (!orders) return cluster_.task_left(job, task, 2);
  if (broken_ != Guard::EndMark && is_over(submission)) return cluster_.task_left(job, task, 0);
  if (!finds_checkpoint(*orders)) return cluster_.task_left(job, task, 21);
  const SimGeneration* parent = generations_.empty() ? nullptr : &generations_.rbegin()->second;
  wire::Start start = start_of(submitted, task, *orders);
  start.generation = parent == nullptr ? Generation(1) : parent->number.next();
  for (auto& [number, other] : generations_)
    if (is_heard(other))
      hooks_.broken(fmt::format("generation {} starts while {} still trains",
                                start.generation.value, number.value));
  lead::ChosenCheckpoint resume;
  const wire::Resume& from = orders->resume;
  if (from.mode == wire::ResumeMode::Newest && parent != nullptr)
    resume = choose(parent->lineage(), orders->verify_checkpoints);
  if (from.mode == wire::ResumeMode::Exact) {
    resume.iteration = from.iteration;
    resume.name = wire::checkpoint_name(from.iteration, from.generation);
    parent = &generations_.at(from.generation);
  }
  start.iteration = resume.iteration;
  start.parent = parent == nullptr ? Generation{} : parent->number;
  start.lineage = wire::descend(parent == nullptr ? wire::Lineage{} : parent->lineage(),
                                resume.iteration, start.generation);
  SimGeneration g;
  g.number = start.generation;
  g.job = job;
  g.task = task;
  std::optional<wire::Control> before;
  if (const auto control = files_.content.find(kDirectory + "control.json");
      control != files_.content.end())
    if (auto read = from_json_text<wire::Control>(control->second, "control")) before = *read;
  const Instant leave_at = submitted.state.at(task).ends_at - orders->exit_before_limit;
  lead::Setup setup;
  setup.node = start.lead;
  setup.order = submission;
  setup.start_path = kDirectory + wire::generation_name(start.generation) + "/start.json";
  setup.checkpoints = kDirectory + "checkpoints";
  setup.beat_every = kBeatEvery;
  setup.start = std::move(start);
  g.lead.state = lead::initial_state(std::move(setup), resume, before, leave_at);
  begin(std::move(g));
}

void Training::begin(SimGeneration minted) {
  const Generation number = minted.number;
  SimGeneration& g = generations_.emplace(number, std::move(minted)).first->second;
  if (g.orders().resume.mode == wire::ResumeMode::Exact) hooks_.goes_back(g);
  hooks_.begins(g);
  feed(g, lead::Began{g.host().text, "", 1});
  later(g, random_.between(100ms, 5s), [this](SimGeneration& then) {
    for (const NodeName& node : then.nodes())
      if (node != then.host() && cluster_.is_up(node)) {
        then.lead.connected.insert(node);
        then.lead.waiting.push_back(lead::AgentConnected{node, node.text, "", 1});
      }
    run(then);
  });
}

// What a job's first act finds: the daemon's halt, or the end mark of the newest generation.
bool Training::is_over(OrderNumber order) const {
  wire::Control control;
  if (const auto text = files_.content.find(kDirectory + "control.json");
      text != files_.content.end())
    control = from_json_text<wire::Control>(text->second, "control").value_or(wire::Control{});
  if (lead::is_halted(order, control)) return true;
  return !generations_.empty() && generations_.rbegin()->second.end &&
         control.lifts < generations_.rbegin()->first;
}

Iteration Training::reached() const {
  return generations_.empty() ? Iteration{} : generations_.rbegin()->second.base;
}

void Training::settle() {
  for (auto& [number, g] : generations_)
    if (g.alive && !g.zombie) account(g);
}

}  // namespace stoker::sim
