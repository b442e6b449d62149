// What ranks do: they start, load, iterate, save and evaluate; they fail, are stopped and are gone.
#include <algorithm>
#include <csignal>
#include <fmt/format.h>

#include "sim/training/training.hpp"
#include "wire/lineage.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kStop = 4s;  // ranks that are ordered to go are gone
constexpr Duration kToKnowPace = 10min;
constexpr int kSavedAndLeft = 10, kLeft = 11;                   // exit codes of stoker-train
constexpr std::uint32_t kStraggles = 200, kTurnsUpAgain = 150;  // of 1,000

std::string name_of_load(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// What a frame of this attempt says that turns up again later.
wire::RankExited crash_of(const SimGeneration& g, const NodeName& node) {
  wire::RankExited exit;
  exit.attempt = g.attempt;
  exit.node = node;
  exit.signal = SIGSEGV;
  return exit;
}

}  // namespace

void Training::start_ranks(SimGeneration& g, const lead::StartAttempt& start) {
  const std::string name = name_of_load(start.order.load);
  if (!g.busy.empty())
    hooks_.broken(fmt::format("attempt {} starts while ranks of attempt {} are alive on {}",
                              start.order.attempt.value, g.attempt.value, g.busy.begin()->text));
  g.from_memory = start.order.memory.has_value();
  g.loaded.reset();
  if (g.from_memory) {
    g.resume = resume_from_memory(g, start);
  } else if (const auto id = wire::parse_checkpoint_name(name)) {
    if (!wire::accepts(g.lineage(), id->generation, id->iteration))
      hooks_.broken(fmt::format("resumes from {}, which is none of its ancestry", name));
    g.resume = id->iteration;
    g.loaded = id;
  } else {
    g.resume = {};
  }
  g.attempt = start.order.attempt;
  g.begun[g.attempt] = g.resume;
  g.attempt_nodes = start.nodes;
  if (start.order.restarts == 0) cure(g);
  if (!g.from_memory) g.line = line_of_start(g);
  g.stopping = false;
  g.frozen_at.reset();
  g.stopped_at.reset();
  g.odd.reset();
  g.last_fault = {};
  g.base = g.resume;
  g.sampled = g.digested = g.resume.value;
  ++g.serial;
  bool whole = true;
  g.busy.clear();
  for (const NodeName& node : g.attempt_nodes)
    if (g.lead.silent.contains(node))
      whole = false;
    else
      g.busy.insert(node);
  if (!whole) g.last_fault = time_.now();  // they wait for those of a node that is gone
  enter(g, Stage::Startup, whole ? scenario_.training.startup : Duration{});
  look_at_nodes();
}

void Training::enter(SimGeneration& g, Stage stage, Duration lasts) {
  g.stage = stage;
  g.stage_since = time_.now();
  send_beat(g);
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
      if (g.base.value >= shape.total) return end_ranks(g, 1ms, {});
      if (g.base.value % shape.save_every == 0) return enter(g, Stage::Save, shape.save + storage);
      return enter(g, Stage::Evaluate, shape.evaluation);
    }
    case Stage::Save: {
      finish_save(g);
      if (!g.alive || g.stage != Stage::Save || g.stopping) return;
      const bool evaluate = shape.evaluate_every != 0 && g.base.value % shape.evaluate_every == 0;
      return evaluate ? enter(g, Stage::Evaluate, shape.evaluation) : iterate(g);
    }
    case Stage::Evaluate: return iterate(g);
  }
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

void Training::save_now(SimGeneration& g, std::uint64_t value) {
  if (g.stage != Stage::Iterate || g.frozen_at || g.stopping) return;
  account(g);
  ++g.serial;
  g.saves_answered = value;
  enter(g, Stage::Save, scenario_.training.save);
}

Iteration Training::completed(const SimGeneration& g) const {
  if (g.stage != Stage::Iterate || g.step <= 0ns) return g.base;
  Instant until = time_.now();
  if (g.frozen_at) until = std::min(until, *g.frozen_at);
  if (g.stopped_at) until = std::min(until, *g.stopped_at);
  if (g.stand.since) until = std::min(until, *g.stand.since);
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

void Training::halt(SimGeneration& g) {
  account(g);
  copy_snapshots(g);
  ++g.serial;
  if (!g.stopped_at) g.stopped_at = time_.now();
}

void Training::die(SimGeneration& g) {
  halt(g);
  g.alive = false;
  g.busy.clear();
  cluster_.task_left(g.job, g.task, 137);
}

void Training::rank_fails(SimGeneration& g, const NodeName& node, int code, int signal) {
  const auto place = std::find(g.attempt_nodes.begin(), g.attempt_nodes.end(), node);
  send_beat(g);  // the newest one
  halt(g);
  g.last_fault = time_.now();
  wire::RankExited exited;
  exited.attempt = g.attempt;
  exited.node = node;
  exited.rank =
      Rank(static_cast<std::uint32_t>(place - g.attempt_nodes.begin()) * g.orders().ranks_per_node);
  exited.code = code;
  exited.signal = signal;
  report(g, node, wire::RankGone{exited});
}

// As the nodes' ladder does it (worker/agent/node/node_stop.cpp).
void Training::stop_ranks(SimGeneration& g, wire::StopHow how) {
  if (g.busy.empty()) return;
  const auto* running = std::get_if<lead::Running>(&g.lead.state.stage);
  const auto* restart = running == nullptr ? nullptr : std::get_if<lead::Restart>(&running->ask);
  const auto* leave = running == nullptr ? nullptr : std::get_if<lead::Leave>(&running->ask);
  const bool well = healthy(g);
  if (well && restart == nullptr && leave == nullptr)
    hooks_.broken("the lead ends ranks that are well, without a request");
  if (well && restart != nullptr) hooks_.ends_well(restart->why.text);
  if (well && how == wire::StopHow::LeaveNow) {
    const auto& orders = newest_orders(false);
    const bool outdated = orders && orders->resume.mode == wire::ResumeMode::Exact &&
                          orders->number > g.orders().number;  // it missed a rollback
    if (!outdated) hooks_.ends_well(leave == nullptr ? "" : leave->why);
  }
  const bool trained =
      g.stage == Stage::Iterate || g.stage == Stage::Save || g.stage == Stage::Evaluate;
  const bool can = !g.frozen_at && g.last_fault == Instant{};
  g.stopping = true;
  halt(g);
  wire::RankExited exit;
  exit.expected = true;
  if (how == wire::StopHow::LeaveNow || how == wire::StopHow::SaveAndLeave)
    exit.code = how == wire::StopHow::LeaveNow ? kLeft : kSavedAndLeft;
  else
    exit.signal = how == wire::StopHow::Crash ? SIGKILL : SIGTERM;
  if (how != wire::StopHow::SaveAndLeave) return end_ranks(g, kStop, exit);
  if (!can) {  // the end of its patience: terminated, then killed
    exit.code = 0;
    exit.signal = SIGKILL;
    const Duration grace = g.orders().stop_grace;
    return end_ranks(g, std::max(g.orders().exit_before_limit, grace) + grace, exit);
  }
  if (!trained) return end_ranks(g, kStop, exit);
  plan(g, scenario_.training.save, [this, exit](SimGeneration& then) {
    finish_save(then);
    if (then.alive && then.last_fault == Instant{}) end_ranks(then, kStop, exit);
  });
}

// Now and then the processes of one node take longer, in uninterruptible sleep.
void Training::end_ranks(SimGeneration& g, Duration wait, wire::RankExited how) {
  if (!g.stopping) halt(g);
  std::vector<NodeName> nodes(g.busy.begin(), g.busy.end());
  if (nodes.size() > 1 && random_.chance(kStraggles)) {
    const auto at = nodes.begin() + static_cast<std::ptrdiff_t>(random_.below(nodes.size()));
    plan(g, wait + random_.between(1s, 40s),
         [this, node = *at, how](SimGeneration& then) { ranks_gone(then, {node}, how); });
    nodes.erase(at);
  }
  plan(g, wait, [this, nodes = std::move(nodes), how](SimGeneration& then) {
    ranks_gone(then, nodes, how);
  });
}

// Ranks that were killed are thousands: only what exits by itself is reported.
void Training::ranks_gone(SimGeneration& g, std::vector<NodeName> nodes, wire::RankExited how) {
  std::erase_if(nodes, [&](const NodeName& node) { return !g.busy.contains(node); });
  const std::uint32_t each = g.orders().ranks_per_node;
  send_beat(g);
  how.attempt = g.attempt;
  if (how.signal == 0)
    for (std::size_t i = 0; i < g.attempt_nodes.size(); ++i) {
      how.node = g.attempt_nodes[i];
      if (std::find(nodes.begin(), nodes.end(), how.node) == nodes.end()) continue;
      for (std::uint32_t rank = 0; rank < each; ++rank) {
        how.rank = Rank(static_cast<std::uint32_t>(i) * each + rank);
        g.lead.waiting.push_back(lead::NodeSaid{how.node, wire::RankGone{how}});
      }
    }
  for (const NodeName& node : nodes) {
    g.busy.erase(node);
    tell_memory(g, node);
    g.lead.waiting.push_back(lead::NodeSaid{node, wire::NodeClear{g.attempt, ""}});
  }
  if (g.busy.empty()) {
    g.stage = Stage::Waiting;
    g.stage_since = time_.now();
    if (!nodes.empty() && random_.chance(kTurnsUpAgain))
      later(g, random_.between(5s, 5min),
            [this, node = nodes.back(), exit = crash_of(g, nodes.back())](SimGeneration& then) {
              report(then, node, wire::RankGone{exit});
              report(then, node, wire::NodeClear{exit.attempt, ""});
            });
  }
  run(g);
}

}  // namespace stoker::sim
