// Generations and attempts: from the claim to the goodbye.
#include "sim/training.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "wire/lineage.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kStop = 4s;           // ranks that are told to go are gone
constexpr Duration kCachedAtMost = 60s;  // nfs(5): acregmax, acdirmax
constexpr Duration kLook = 5s;
constexpr Duration kToKnowPace = 10min;
const std::string kDirectory = "/runs/sim/";

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
  const auto skew = skews_.find(g.nodes.front());
  event.at = time_.now() + (skew == skews_.end() ? Duration(0s) : skew->second);
  event.body = std::move(body);
  hooks_.line(g.number, wire::format_event_line(event));
}

// Does it later, unless the generation is gone or does something else by then.
void Training::plan(SimGeneration& g, Duration wait, std::function<void(SimGeneration&)> what) {
  time_.after(wait, [this, number = g.number, serial = g.serial, what = std::move(what)] {
    SimGeneration& then = generations_.at(number);
    if (then.alive && then.serial == serial) what(then);
  });
}

void Training::job_started(const SimJob& job, std::uint32_t task) {
  const std::uint64_t id = job.id;
  time_.after(scenario_.cluster.boot, [this, id, task] {
    const auto found = cluster_.jobs().find(id);
    if (found == cluster_.jobs().end()) return;
    const SimTask& now = found->second.state.at(task);
    if (now.state != core::JobState::Running) return;
    if (!cluster_.is_up(now.nodes.front())) return;
    if (!claims_.insert(fmt::format("{}.{}", found->second.comment, task)).second) return;
    mint(id, task);
  });
}

// The newest good checkpoint of this ancestry. Without the fence: simply the highest number.
Iteration Training::best_checkpoint(const wire::Lineage& lineage, bool verify) {
  const SimCheckpoint* best = nullptr;
  for (const SimCheckpoint& c : checkpoints_) {
    const bool ours = wire::accepts(lineage, c.id.generation, c.id.iteration);
    if (!ours && broken_ != Guard::Fencing) continue;
    if (c.damaged && verify) continue;
    if (best == nullptr || best->id.iteration < c.id.iteration) best = &c;
  }
  if (best == nullptr) return {};
  if (!wire::accepts(lineage, best->id.generation, best->id.iteration))
    hooks_.broken(fmt::format("resumes from {}, which is none of its ancestry",
                              wire::checkpoint_name(best->id.iteration, best->id.generation)));
  if (best->damaged)
    hooks_.broken(fmt::format("resumes from {}, which is damaged",
                              wire::checkpoint_name(best->id.iteration, best->id.generation)));
  return best->id.iteration;
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
  const std::string& token = cluster_.jobs().at(job).comment;  // "run-ORDER-digits"
  const std::uint64_t least = std::strtoul(token.c_str() + token.find('-') + 1, nullptr, 10);
  if ((!orders || orders->number.value < least) && waited * kLook <= kCachedAtMost) {
    time_.after(kLook, [this, job, task, waited] {
      const auto found = cluster_.jobs().find(job);
      if (found != cluster_.jobs().end() &&
          found->second.state.at(task).state == core::JobState::Running)
        mint(job, task, waited + 1);
    });
    return;
  }
  if (!orders) return cluster_.task_left(job, task, 2);
  if (broken_ != Guard::EndMark && is_over(least)) return cluster_.task_left(job, task, 0);
  if (!finds_checkpoint(*orders)) return cluster_.task_left(job, task, 21);
  SimGeneration g;
  g.orders = *orders;
  g.epoch = orders->epoch;
  g.job = job;
  g.task = task;
  g.nodes = cluster_.jobs().at(job).state.at(task).nodes;
  const SimGeneration* parent = generations_.empty() ? nullptr : &generations_.rbegin()->second;
  g.number = parent == nullptr ? Generation(1) : parent->number.next();
  for (auto& [number, other] : generations_)
    if (other.alive && !other.zombie)
      hooks_.broken(
          fmt::format("generation {} starts while {} still trains", g.number.value, number.value));
  switch (orders->resume.mode) {
    case wire::ResumeMode::Newest:
      if (parent != nullptr)
        g.resume = best_checkpoint(parent->lineage, orders->verify_checkpoints);
      break;
    case wire::ResumeMode::Exact:
      g.resume = orders->resume.iteration;
      parent = &generations_.at(orders->resume.generation);
      hooks_.goes_back(g);
      break;
    case wire::ResumeMode::Scratch: break;
  }
  g.parent = parent == nullptr ? Generation{} : parent->number;
  g.lineage =
      wire::descend(parent == nullptr ? wire::Lineage{} : parent->lineage, g.resume, g.number);
  if (const auto control = files_.content.find(kDirectory + "control.json");
      control != files_.content.end())
    if (const auto before = from_json_text<wire::Control>(control->second, "control")) {
      g.done = {before->save, before->stacks, before->restart};
      g.epoch = std::max(g.epoch, before->epoch);
    }
  wire::GenerationStarted started;
  started.generation = g.number;
  started.parent = g.parent;
  started.iteration = g.resume;
  started.token = Token(cluster_.jobs().at(job).comment);
  started.job = {job, task};
  started.order = orders->number;
  started.nodes = g.nodes;
  started.asked = g.done;
  SimGeneration& kept = generations_.emplace(g.number, std::move(g)).first->second;
  hooks_.begins(kept);
  tell(kept, std::move(started));
  const Instant wall = cluster_.jobs().at(job).state.at(task).ends_at;
  const Duration margin = kept.orders.exit_before_limit;
  time_.at(wall - margin, [this, number = kept.number] {
    SimGeneration& then = generations_.at(number);
    if (then.alive) save_and_leave(then, "the time limit");
  });
  begin_attempt(kept, "first start");
}

std::vector<NodeName> Training::eligible(const SimGeneration& g) const {
  std::vector<NodeName> nodes;
  const auto& never = g.orders.exclude;
  for (const NodeName& node : g.nodes)
    if (!g.lost.contains(node) && !g.excluded.contains(node) && cluster_.is_up(node) &&
        std::find(never.begin(), never.end(), node) == never.end())
      nodes.push_back(node);
  return nodes;
}

void Training::begin_attempt(SimGeneration& g, const std::string& why) {
  if (g.leaving) return leave(g, 0, *g.leaving);
  std::vector<NodeName> nodes = eligible(g);
  if (nodes.size() < g.orders.nodes)
    return leave(g, 1,
                 fmt::format("only {} of the {} nodes that the run needs are left", nodes.size(),
                             g.orders.nodes));
  nodes.resize(g.orders.nodes);
  if (g.attempt.value > 0) g.resume = best_checkpoint(g.lineage, g.orders.verify_checkpoints);
  for (const SimCheckpoint& c : checkpoints_)
    if (c.damaged && c.id.iteration > g.resume && g.orders.verify_checkpoints &&
        wire::accepts(g.lineage, c.id.generation, c.id.iteration))
      tell(g, wire::DamagedCheckpoint{wire::checkpoint_name(c.id.iteration, c.id.generation),
                                      "shard-0001.bin: XXH3 differs from the manifest"});
  if (g.attempt.value == 0) cure(g);
  g.line = line_of_start(g);
  g.attempt = g.attempt.next();
  g.attempt_nodes = std::move(nodes);
  g.frozen_at.reset();
  g.odd.reset();
  g.last_fault = {};
  g.base = g.resume;
  g.digested = g.resume.value;
  ++g.serial;
  wire::AttemptStarted started;
  started.attempt = g.attempt;
  started.nodes = g.attempt_nodes;
  started.world_size = static_cast<std::uint32_t>(g.attempt_nodes.size()) * g.orders.ranks_per_node;
  started.iteration = g.resume;
  started.why = why;
  tell(g, std::move(started));
  enter(g, Stage::Startup, scenario_.training.startup);
  look_at_nodes();
}

void Training::enter(SimGeneration& g, Stage stage, Duration lasts) {
  static constexpr wire::Phase kPhases[] = {wire::Phase::Startup,    wire::Phase::Startup,
                                            wire::Phase::Load,       wire::Phase::Iteration,
                                            wire::Phase::Checkpoint, wire::Phase::Evaluation};
  const wire::Phase before = kPhases[static_cast<int>(g.stage)];
  g.stage = stage;
  g.stage_since = time_.now();
  const wire::Phase phase = kPhases[static_cast<int>(stage)];
  if (phase != before || stage == Stage::Startup)
    tell(g, wire::PhaseEdge{g.attempt, phase, g.base});
  if (lasts > 0ns) plan(g, lasts, [this](SimGeneration& then) { next_stage(then); });
}

void Training::next_stage(SimGeneration& g) {
  const TrainingShape& shape = scenario_.training;
  const Duration storage = std::max<Duration>(0s, hooks_.storage_free() - time_.now());
  switch (g.stage) {
    case Stage::Waiting: return;
    case Stage::Startup:
      if (hooks_.doomed() && crash("a module is broken")) return;
      return enter(g, Stage::Load, shape.load + storage);
    case Stage::Load: return refuses_load(g) ? void() : iterate(g);
    case Stage::Iterate: {
      account(g);
      if (g.base.value >= shape.total) {
        return finish(g);
      }
      if (g.base.value % shape.save_every == 0) return enter(g, Stage::Save, shape.save + storage);
      return enter(g, Stage::Evaluate, shape.evaluation);
    }
    case Stage::Save: {
      finish_save(g, false);
      if (!g.alive || g.stage != Stage::Save) return;
      const bool evaluate = shape.evaluate_every != 0 && g.base.value % shape.evaluate_every == 0;
      return evaluate ? enter(g, Stage::Evaluate, shape.evaluation) : iterate(g);
    }
    case Stage::Evaluate: return iterate(g);
  }
}

// The mark comes before the words; some leads die in between.
void Training::finish(SimGeneration& g) {
  wire::EndMark mark;
  mark.generation = g.number;
  mark.why = "all ranks ended with exit code 0";
  mark.iteration = g.base;
  mark.order = g.orders.number;
  g.end = mark;
  hooks_.ends(g);
  if (random_.chance(200)) {
    g.alive = false;
    ++g.serial;
    return cluster_.task_left(g.job, g.task, 137);
  }
  wire::AttemptEnded ended;
  ended.attempt = g.attempt;
  ended.all_zero = true;
  ended.end = mark;
  tell(g, std::move(ended));
  leave(g, 0, "finished");
}

// What a job's first act finds: the daemon's halt, or the end mark of the newest generation.
bool Training::is_over(std::uint64_t order) const {
  wire::Control control;
  if (const auto text = files_.content.find(kDirectory + "control.json");
      text != files_.content.end())
    control = from_json_text<wire::Control>(text->second, "control").value_or(wire::Control{});
  if (!control.halt.empty() && order <= control.halt_order.value) return true;
  return !generations_.empty() && generations_.rbegin()->second.end &&
         control.lifts < generations_.rbegin()->first;
}

// To the next boundary: a save, an evaluation or the end.
void Training::iterate(SimGeneration& g) {
  const TrainingShape& shape = scenario_.training;
  const auto next = [&](std::uint64_t every) { return (g.base.value / every + 1) * every; };
  std::uint64_t until = std::min(next(shape.save_every), shape.total);
  if (shape.evaluate_every != 0) until = std::min(until, next(shape.evaluate_every));
  until = std::max(until, g.base.value + 1);
  g.step = shape.iteration;
  const bool was_slow = g.slow_since != Instant{};
  const Instant slow_since = was_slow ? g.slow_since : time_.now();
  g.slow_since = {};
  for (const NodeName& node : cluster_.slow())
    if (std::find(g.attempt_nodes.begin(), g.attempt_nodes.end(), node) != g.attempt_nodes.end()) {
      g.step = shape.iteration * 149 / 140;  // tr11, 2022
      g.slow_since = slow_since;
    }
  const Duration at_its_pace = static_cast<std::int64_t>(g.base.value) * shape.iteration;
  if (!was_slow && g.slow_since != Instant{} && at_its_pace >= kToKnowPace) ++slowdowns_;
  enter(g, Stage::Iterate, static_cast<std::int64_t>(until - g.base.value) * g.step);
}

Iteration Training::completed(const SimGeneration& g) const {
  if (g.stage != Stage::Iterate || g.step <= 0ns) return g.base;
  const Instant until = g.frozen_at ? std::min(*g.frozen_at, time_.now()) : time_.now();
  return Iteration(g.base.value + static_cast<std::uint64_t>(
                                      std::max<std::int64_t>(0, (until - g.stage_since) / g.step)));
}

// Takes the iterations done so far into `base`; what was done before is lost time.
void Training::account(SimGeneration& g) {
  const Iteration now = completed(g);
  for (std::uint64_t n = g.base.value; n < now.value;) {
    const std::uint64_t repeated = std::min(now.value, std::max(n, best_.value)) - n;
    lost_ += static_cast<std::int64_t>(repeated) * g.step;
    n += repeated;
    useful_ += static_cast<std::int64_t>(now.value - n) * scenario_.training.iteration;
    n = now.value;
  }
  best_ = std::max(best_, now);
  if (g.stage == Stage::Iterate && g.step > 0ns)
    g.stage_since += static_cast<std::int64_t>(now.value - g.base.value) * g.step;
  g.base = now;
}

Iteration Training::reached() const {
  return generations_.empty() ? Iteration{} : generations_.rbegin()->second.base;
}

void Training::settle() {
  for (auto& [number, g] : generations_)
    if (g.alive && !g.zombie) account(g);
}

void Training::end_attempt(SimGeneration& g, int code, const NodeName& node, bool told) {
  account(g);
  ++g.serial;
  g.stage = Stage::Waiting;
  g.stage_since = time_.now();
  const Duration grace = g.orders.orphan_grace;
  wire::AttemptEnded ended;
  ended.attempt = g.attempt;
  ended.worst_code = told ? 0 : code;
  ended.first_node = node;
  ended.told = told;
  tell(g, std::move(ended));
  if (g.leaving) return leave(g, 10, *g.leaving);
  plan(g, grace, [this](SimGeneration& then) {  // nobody speaks: it decides alone
    if (then.own_restarts++ < then.orders.restart_budget && then.orders.in_allocation)
      return begin_attempt(then, "orphaned for 10min");
    leave(then, 1, "orphaned, and the restarts that the orders give are spent");
  });
}

void Training::leave(SimGeneration& g, int code, const std::string& why) {
  account(g);
  wire::Goodbye goodbye;
  goodbye.node = g.nodes.front();
  goodbye.lead = true;
  goodbye.exit_code = code;
  goodbye.why = why;
  goodbye.end = g.end;
  tell(g, std::move(goodbye));
  g.alive = false;
  ++g.serial;
  cluster_.task_left(g.job, g.task, code);
}

}  // namespace stoker::sim
