// What reaches a generation from outside: faults, control.json, the scheduler's signals; and what
// its lead would beat at this moment.
#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <set>

#include "sim/training/training.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kSilence = 10s;   // then a lead gives a link up
constexpr Duration kKillWait = 30s;  // slurm.conf, default
constexpr std::uint32_t kInCollective = 300;
constexpr Duration kTogether = 50ms;
const std::string kDirectory = "/runs/sim/";

bool runs(const SimGeneration& g) {
  return g.alive && g.stage != Stage::Waiting && !g.stopping;
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
  rank_fails(*g, *node, 0, SIGSEGV);
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
  if (one) {
    g->odd = Rank(static_cast<std::uint32_t>(
        random_.below(g->attempt_nodes.size() * g->orders().ranks_per_node)));
    // In a collective that all have entered, where who came first is chance, or on the way to it:
    // the others go on until they get there, or were there and waited for this one.
    g->in_collective = random_.chance(kInCollective);
    const Duration step = std::max(g->step, kTogether);
    g->others_later = g->in_collective ? random_.between(-kTogether, kTogether)
                                       : random_.between(-step / 2, step);
  }
  hooks_.say(one ? fmt::format("rank {} stands still", g->odd->value) : "all ranks stand still");
  return true;
}

// Packets are sent again for so long, then the collective fails.
bool Training::flap(const NodeName& node, Duration lasts) {
  constexpr Duration kGivesUp = 2min;  // NCCL_IB_TIMEOUT 22: 4.1 us x 2^22 = 17 s, 7 tries
  SimGeneration* g = live();
  if (g == nullptr || g->stage != Stage::Iterate || g->frozen_at || g->stopping ||
      g->last_fault != Instant{})
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
  skews_[g->host()] = by;
  return true;
}

bool Training::lose_node(const NodeName& node) {
  cluster_.node_dies(node);
  for (auto& [number, g] : generations_) {
    const auto& nodes = g.nodes();
    if (!g.alive || std::find(nodes.begin(), nodes.end(), node) == nodes.end()) continue;
    ++failures_;
    if (g.host() == node) {  // the lead goes without a word
      halt(g);
      g.alive = false;
      g.busy.clear();
      continue;
    }
    g.lead.silent.emplace(node, time_.now());
    if (g.busy.erase(node) > 0 && !g.stopping) {
      halt(g);
      g.last_fault = time_.now();
    }
    later(g, kSilence + 1ms, [this](SimGeneration& then) { feed(then, look(then)); });
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
  if (g == nullptr || g->stage != Stage::Iterate || g->frozen_at || g->stopped_at) return;
  account(*g);
  ++g->serial;
  iterate(*g);
}

void Training::job_killed(const SimJob& job, std::uint32_t task, bool gently) {
  for (auto& [number, g] : generations_) {
    if (!g.alive || g.job != job.id || g.task != task) continue;
    if (g.stand.since) go_on(g);  // slurmctld lets them run, to receive it
    if (!gently) {
      die(g);
      continue;
    }
    later(g, kKillWait, [this](SimGeneration& then) { die(then); });
    feed(g, lead::Signal{SIGTERM, "Terminated"});
  }
}

void Training::control_written() {
  const auto text = files_.content.find(kDirectory + "control.json");
  if (text == files_.content.end()) return;
  const auto control = from_json_text<wire::Control>(text->second, "control");
  if (!control) return;
  obeyed_until_ = std::max(
      obeyed_until_, time_.now() + (hooks_.late() ? random_.between(1s, 60s) : Duration(500ms)));
  time_.at(obeyed_until_, [this, control = *control] {
    for (auto& [number, g] : generations_) {
      if (!g.alive || g.zombie) continue;
      if (broken_ == Guard::Fencing && control.generation > g.number) continue;
      lead::ControlRead read{control};
      if (broken_ == Guard::Lease) read.control.epoch = std::max(control.epoch, g.lead.state.epoch);
      send_beat(g);
      feed(g, std::move(read));
    }
  });
}

bool Training::healthy(const SimGeneration& g) const {
  return g.alive && !g.zombie && !g.frozen_at && g.last_fault == Instant{} &&
         g.stage != Stage::Waiting && !g.stopping && !ails(ailments_, completed(g));
}

std::optional<wire::SlowestRank> Training::slowest(const SimGeneration& g) const {
  constexpr double kComputes = 0.97;  // of an iteration
  if (!scenario_.training.tells_compute || g.stage != Stage::Iterate) return std::nullopt;
  for (const NodeName& node : cluster_.slow()) {
    const auto place = std::find(g.attempt_nodes.begin(), g.attempt_nodes.end(), node);
    if (place == g.attempt_nodes.end()) continue;
    const auto first = static_cast<std::uint32_t>(place - g.attempt_nodes.begin());
    return wire::SlowestRank{Rank(first * g.orders().ranks_per_node), node,
                             kComputes * static_cast<double>(ms(g.step)),
                             kComputes * static_cast<double>(ms(scenario_.training.iteration))};
  }
  return std::nullopt;
}

// As the lead folds it from what its agents tell now.
wire::Beat Training::beat(SimGeneration& g) {
  send_beat(g);
  wire::Beat beat =
      lead::fold_beat(g.attempt, g.lead.state.samples, ms(time_.now() - g.stage_since),
                      ms(time_.now() - g.lead.state.awake_at));
  beat.ranks = static_cast<std::uint32_t>(g.attempt_nodes.size()) * g.orders().ranks_per_node;
  beat.reporting = beat.ranks;  // the samples stand for all of them
  if (beat.waiting > 0) beat.waiting = g.in_collective ? beat.ranks : beat.ranks - 1;
  beat.slowest = slowest(g);
  return beat;
}

// Two ranks stand for all, beside them the one that stands still alone. The others wait for it.
std::map<NodeName, std::vector<wire::RankSample>> Training::samples(const SimGeneration& g) const {
  static constexpr wire::Phase kPhases[] = {wire::Phase::Startup,    wire::Phase::Startup,
                                            wire::Phase::Load,       wire::Phase::Iteration,
                                            wire::Phase::Checkpoint, wire::Phase::Evaluation};
  const Instant now = time_.now();
  wire::RankSample sample;
  sample.reported = sample.page = true;
  sample.phase = kPhases[static_cast<int>(g.stage)];
  sample.phase_age_ms = ms(age_of(g, now - g.stage_since));
  sample.iteration = completed(g);
  sample.total = scenario_.training.total;
  const NumbersShape& numbers = scenario_.training.numbers;
  sample.consumed_samples = samples_at(numbers, g.line, sample.iteration);
  sample.loss = loss_at(numbers, g.line, ailments_, sample.iteration);
  sample.learning_rate = learning_rate_at(numbers, g.line, sample.iteration);
  sample.gradient_norm = gradient_norm_at(ailments_, sample.iteration);
  if (g.step > 0ns)
    sample.tflops =
        scenario_.training.tflops * to_seconds(scenario_.training.iteration) / to_seconds(g.step);
  sample.iteration_ms = static_cast<double>(ms(g.step));
  sample.completed = sample.iteration.value - std::min(sample.iteration.value, g.sampled);
  sample.saves_answered = g.saves_answered;
  Duration age = now - g.stage_since;
  if (g.stage == Stage::Iterate && g.step > 0ns)
    age = age % g.step;
  else if (g.stage == Stage::Load || g.stage == Stage::Evaluate)
    age = std::min<Duration>(age, 2s);  // bytes and batches are progress
  age = age_of(g, age);
  if (const auto stands = g.frozen_at ? g.frozen_at : g.stopped_at)
    age = std::max(age, now - *stands);
  sample.progress_age_ms = ms(age);
  const std::uint32_t per_node = g.orders().ranks_per_node;
  const auto world = static_cast<std::uint32_t>(g.attempt_nodes.size()) * per_node;
  std::set<Rank> shown{Rank(0), Rank(std::min(world - 1, 1U))};
  if (g.odd) shown.insert(*g.odd);
  std::map<NodeName, std::vector<wire::RankSample>> samples;
  for (const Rank rank : shown) {
    sample.rank = rank;
    const bool waits = g.odd && rank != *g.odd;
    sample.progress_age_ms = std::max<std::int64_t>(0, ms(waits ? age - g.others_later : age));
    if (g.odd) sample.waiting = waits || g.in_collective;
    samples[g.attempt_nodes[rank.value / per_node]].push_back(sample);
  }
  return samples;
}

}  // namespace stoker::sim
