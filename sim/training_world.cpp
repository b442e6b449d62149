// What reaches a generation from outside: faults, control.json, the scheduler's signals; and what
// its lead would beat at this moment.
#include <algorithm>
#include <fmt/format.h>

#include "sim/training.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kStop = 4s;
constexpr Duration kKillWait = 30s;  // slurm.conf, default
const std::string kDirectory = "/runs/sim/";

bool runs(const SimGeneration& g) {
  return g.alive && g.stage != Stage::Waiting;
}

std::int64_t ms(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

}  // namespace

bool Training::crash(const std::string& how, std::optional<NodeName> node) {
  SimGeneration* g = live();
  if (g == nullptr || !runs(*g)) return false;
  if (!node) node = g->attempt_nodes[random_.below(g->attempt_nodes.size())];
  const auto place = std::find(g->attempt_nodes.begin(), g->attempt_nodes.end(), *node);
  if (place == g->attempt_nodes.end()) return false;
  ++failures_;
  hooks_.say(fmt::format("a rank on {} dies ({})", node->text, how));
  wire::RankExited exited;
  exited.attempt = g->attempt;
  exited.node = *node;
  exited.rank =
      Rank(static_cast<std::uint32_t>(place - g->attempt_nodes.begin()) * g->orders.ranks_per_node);
  exited.signal = 11;
  tell(*g, std::move(exited));
  account(*g);
  ++g->serial;
  g->last_fault = time_.now();
  plan(*g, kStop,
       [this, node = *node](SimGeneration& then) { end_attempt(then, 139, node, false); });
  return true;
}

bool Training::freeze(bool one) {
  SimGeneration* g = live();
  if (g == nullptr || !runs(*g) || g->frozen_at) return false;
  ++failures_;
  account(*g);
  ++g->serial;
  g->frozen_at = time_.now();
  g->last_fault = time_.now();
  if (one)
    g->odd = Rank(static_cast<std::uint32_t>(
        random_.below(g->attempt_nodes.size() * g->orders.ranks_per_node)));
  hooks_.say(one ? fmt::format("rank {} stands still", g->odd->value) : "all ranks stand still");
  return true;
}

// Packets are sent again for so long, then the collective fails.
bool Training::flap(const NodeName& node, Duration lasts) {
  constexpr Duration kGivesUp = 2min;  // NCCL_IB_TIMEOUT 22: 4.1 us x 2^22 = 17 s, 7 tries
  SimGeneration* g = live();
  if (g == nullptr || g->stage != Stage::Iterate || g->frozen_at || g->last_fault != Instant{})
    return false;
  account(*g);
  ++g->serial;
  g->frozen_at = g->last_fault = time_.now();
  hooks_.say(fmt::format("the link of {} is down", node.text));
  plan(*g, std::min(lasts, kGivesUp),
       [this, node, gives_up = lasts > kGivesUp](SimGeneration& then) {
         then.frozen_at.reset();
         then.last_fault = {};
         if (gives_up) {
           crash("NCCL gives up", node);
           return;
         }
         hooks_.say(fmt::format("the link of {} is up again", node.text));
         iterate(then);
       });
  return true;
}

bool Training::skew_clock(Duration by) {
  const SimGeneration* g = live();
  if (g == nullptr) return false;
  skews_[g->nodes.front()] = by;
  return true;
}

bool Training::lose_node(const NodeName& node) {
  cluster_.node_dies(node);
  for (auto& [number, g] : generations_) {
    if (!g.alive || std::find(g.nodes.begin(), g.nodes.end(), node) == g.nodes.end()) continue;
    ++failures_;
    if (g.nodes.front() == node) {  // the lead goes without a word
      account(g);
      g.alive = false;
      ++g.serial;
      continue;
    }
    g.lost.insert(node);
    account(g);
    const bool used =
        std::find(g.attempt_nodes.begin(), g.attempt_nodes.end(), node) != g.attempt_nodes.end();
    if (used && runs(g)) {
      ++g.serial;
      g.last_fault = time_.now();
      plan(g, 20s, [this, node](SimGeneration& then) {
        tell(then, wire::AgentLost{node, "connection closed"});
        plan(then, kStop,
             [this, node](SimGeneration& later) { end_attempt(later, 20, node, false); });
      });
    } else {
      tell(g, wire::AgentLost{node, "connection closed"});
    }
  }
  return true;
}

bool Training::tear_newest() {
  for (auto at = checkpoints_.rbegin(); at != checkpoints_.rend(); ++at)
    if (!at->damaged) {
      at->damaged = true;
      hooks_.say(
          fmt::format("{} is torn", wire::checkpoint_name(at->id.iteration, at->id.generation)));
      return true;
    }
  return false;
}

// The next stretch of iterations has the pace of the slowest node.
void Training::look_at_nodes() {
  SimGeneration* g = live();
  if (g == nullptr || g->stage != Stage::Iterate || g->frozen_at) return;
  account(*g);
  ++g->serial;
  iterate(*g);
}

void Training::job_killed(const SimJob& job, std::uint32_t task, bool gently) {
  for (auto& [number, g] : generations_) {
    if (!g.alive || g.job != job.id || g.task != task) continue;
    const auto die = [this](SimGeneration& then) {
      account(then);
      then.alive = false;
      ++then.serial;
      cluster_.task_left(then.job, then.task, 137);
    };
    if (!gently) {
      die(g);
      continue;
    }
    save_and_leave(g, "signal 15 (Terminated)");
    time_.after(kKillWait, [this, die, which = g.number] {
      SimGeneration& then = generations_.at(which);
      if (then.alive) die(then);
    });
  }
}

void Training::save_and_leave(SimGeneration& g, const std::string& why) {
  if (g.leaving) return;
  g.leaving = "saved and exited: " + why;
  if (g.stage == Stage::Waiting) return leave(g, 0, *g.leaving);
  if (g.frozen_at || g.last_fault != Instant{}) return;  // it cannot: the next, harder step ends it
  account(g);
  ++g.serial;
  const bool trained =
      g.stage == Stage::Iterate || g.stage == Stage::Save || g.stage == Stage::Evaluate;
  plan(g, trained ? scenario_.training.save + kStop : kStop, [this, trained](SimGeneration& then) {
    if (trained) finish_save(then, true);
    if (then.alive && then.stage != Stage::Waiting)
      end_attempt(then, 10, then.attempt_nodes.front(), false);
  });
}

void Training::control_written() {
  const auto text = files_.content.find(kDirectory + "control.json");
  if (text == files_.content.end()) return;
  const auto control = from_json_text<wire::Control>(text->second, "control");
  if (!control) return;
  obeyed_until_ = std::max(
      obeyed_until_, time_.now() + (hooks_.late() ? random_.between(1s, 60s) : Duration(500ms)));
  time_.at(obeyed_until_, [this, control = *control] {
    for (auto& [number, g] : generations_)
      if (g.alive && !g.zombie) obey(g, control);
  });
}

// As the lead agent judges it: epoch, generation, then counters, then the level.
void Training::obey(SimGeneration& g, const wire::Control& control) {
  if (control.epoch < g.epoch && broken_ != Guard::Lease) {
    tell(g, wire::Notice{g.nodes.front(), fmt::format("control of epoch {} refused, {} is known",
                                                      control.epoch.value, g.epoch.value)});
    return;
  }
  if (control.generation < g.number) return;
  g.epoch = std::max(g.epoch, control.epoch);
  if (control.generation > g.number) {
    if (broken_ != Guard::Fencing) leave(g, 1, "superseded");
    return;
  }
  g.excluded = {control.exclude.begin(), control.exclude.end()};
  if (control.save > g.done.save) {
    g.done.save = control.save;
    tell(g, wire::Acknowledged{"save", control.save, runs(g) ? "" : "no ranks are running"});
    if (g.stage == Stage::Iterate && !g.frozen_at) {
      account(g);
      ++g.serial;
      g.saves_answered = control.save;
      enter(g, Stage::Save, scenario_.training.save);
    }
  }
  if (control.stacks > g.done.stacks) {
    g.done.stacks = control.stacks;
    tell(g, wire::Acknowledged{"stacks", control.stacks, ""});
    plan(g, 2s, [this](SimGeneration& then) {
      wire::StacksWritten written;
      written.directory = wire::generation_name(then.number) + "/stacks/1";
      written.ranks =
          static_cast<std::uint32_t>(then.attempt_nodes.size()) * then.orders.ranks_per_node;
      written.groups = then.odd ? 2 : 1;
      if (then.odd)
        written.odd = {
            {*then.odd, then.attempt_nodes[then.odd->value / then.orders.ranks_per_node]}};
      tell(then, std::move(written));
    });
  }
  if (control.restart > g.done.restart) {
    g.done.restart = control.restart;
    const bool done = control.restart_of.value != 0 && control.restart_of < g.attempt;
    tell(g, wire::Acknowledged{"restart", control.restart, g.leaving ? "the run is leaving" : ""});
    if (!g.leaving && !done) {
      const std::string why = fmt::format("control restart {}", control.restart);
      const bool running = runs(g);
      if (healthy(g)) hooks_.ends_well(control.reason);
      account(g);
      ++g.serial;
      plan(g, running ? kStop : 1ms, [this, why, running](SimGeneration& then) {
        if (running) {
          then.stage = Stage::Waiting;
          wire::AttemptEnded ended;
          ended.attempt = then.attempt;
          ended.told = true;
          tell(then, std::move(ended));
        }
        begin_attempt(then, why);
      });
    }
  }
  obey_level(g, control);
}

void Training::obey_level(SimGeneration& g, const wire::Control& control) {
  if (control.level == g.level) return;
  g.level = control.level;
  tell(g, wire::Acknowledged{"level", 1, std::string(name_of(control.level))});
  if (control.level == wire::Level::SaveAndLeave) save_and_leave(g, control.reason);
  if (control.level == wire::Level::LeaveNow) {
    const auto& orders = newest_orders(false);
    const bool outdated = orders && orders->resume.mode == wire::ResumeMode::Exact &&
                          orders->number > g.orders.number;  // it missed a rollback
    if (healthy(g) && !outdated) hooks_.ends_well(control.reason);
    g.leaving = "left without saving: " + control.reason;
    account(g);
    ++g.serial;
    plan(g, kStop, [this](SimGeneration& then) {
      if (then.stage != Stage::Waiting) {
        wire::AttemptEnded ended;
        ended.attempt = then.attempt;
        ended.told = true;
        tell(then, std::move(ended));
      }
      leave(then, 0, *then.leaving);
    });
  }
}

bool Training::healthy(const SimGeneration& g) const {
  return g.alive && !g.zombie && !g.frozen_at && g.last_fault == Instant{} &&
         g.stage != Stage::Waiting && !g.leaving && !ails(ailments_, completed(g));
}

std::optional<wire::SlowestRank> Training::slowest(const SimGeneration& g) const {
  constexpr double kComputes = 0.97;  // of an iteration
  if (!scenario_.training.tells_compute || g.stage != Stage::Iterate) return std::nullopt;
  for (const NodeName& node : cluster_.slow()) {
    const auto place = std::find(g.attempt_nodes.begin(), g.attempt_nodes.end(), node);
    if (place == g.attempt_nodes.end()) continue;
    const auto first = static_cast<std::uint32_t>(place - g.attempt_nodes.begin());
    return wire::SlowestRank{Rank(first * g.orders.ranks_per_node), node,
                             kComputes * static_cast<double>(ms(g.step)),
                             kComputes * static_cast<double>(ms(scenario_.training.iteration))};
  }
  return std::nullopt;
}

wire::Beat Training::beat(SimGeneration& g) {
  static constexpr wire::Phase kPhases[] = {wire::Phase::Startup,    wire::Phase::Startup,
                                            wire::Phase::Load,       wire::Phase::Iteration,
                                            wire::Phase::Checkpoint, wire::Phase::Evaluation};
  wire::Beat beat;
  const Instant now = time_.now();
  beat.attempt = g.attempt;
  beat.phase = kPhases[static_cast<int>(g.stage)];
  beat.phase_age_ms = ms(now - g.stage_since);
  beat.ranks = static_cast<std::uint32_t>(g.attempt_nodes.size()) * g.orders.ranks_per_node;
  beat.reporting = beat.ranks;
  beat.iteration_max = beat.iteration_min = completed(g);
  beat.total = scenario_.training.total;
  const NumbersShape& numbers = scenario_.training.numbers;
  beat.consumed_samples = samples_at(numbers, g.line, beat.iteration_max);
  beat.loss = loss_at(numbers, g.line, ailments_, beat.iteration_max);
  beat.learning_rate = learning_rate_at(numbers, g.line, beat.iteration_max);
  beat.gradient_norm = gradient_norm_at(ailments_, beat.iteration_max);
  if (g.step > 0ns)
    beat.tflops =
        scenario_.training.tflops * to_seconds(scenario_.training.iteration) / to_seconds(g.step);
  beat.saves_answered = g.saves_answered;
  beat.slowest = slowest(g);
  Duration age = 0ms;
  if (g.stage == Stage::Iterate && g.step > 0ns)
    age = (now - g.stage_since) % g.step;
  else if (g.stage == Stage::Load || g.stage == Stage::Evaluate)
    age = std::min<Duration>(now - g.stage_since, 2s);  // bytes and batches are progress
  else
    age = now - g.stage_since;
  if (g.frozen_at) age = now - *g.frozen_at;
  beat.progress_age_ms = ms(age);
  beat.newest_progress_age_ms = g.odd ? std::max<std::int64_t>(0, ms(age) - 3000) : ms(age);
  if (g.frozen_at && g.odd) {
    const auto place = [&](std::uint32_t rank) {
      return g.attempt_nodes[rank / g.orders.ranks_per_node];
    };
    beat.oldest = {{*g.odd, place(g.odd->value), ms(age), beat.phase, beat.iteration_max}};
    const Rank other(g.odd->value == 0 ? 1 : 0);
    if (other.value < beat.ranks)
      beat.oldest.push_back(
          {other, place(other.value), beat.newest_progress_age_ms, beat.phase, beat.iteration_max});
  }
  return beat;
}

}  // namespace stoker::sim
