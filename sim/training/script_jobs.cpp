// A script's ranks, from their job's start to its end.
#include "sim/training/script_jobs.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/recover/resume_files.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kSeenLate = 5s;     // of a line, on the daemon's host
constexpr Duration kOrphanLives = 1h;  // at most
constexpr Duration kGivesUp = 2min;    // of a link, as training_world.cpp
constexpr std::uint64_t kNear = 3;     // iterations before the end
constexpr int kLeftEarly = 85;         // exit code, where 0 means that the training is over
const std::string kTree = "/runs/sim/checkpoints";

}  // namespace

ScriptJobs::ScriptJobs(Timeline& time, Random& random, Cluster& cluster, SimFiles& files,
                       const Scenario& scenario, const core::RunPolicy& policy, Hooks hooks)
    : time_(time),
      random_(random),
      cluster_(cluster),
      files_(files),
      scenario_(scenario),
      policy_(policy),
      hooks_(std::move(hooks)),
      goes_on_(random.chance(500)) {}

ScriptJobs::Start* ScriptJobs::live() {
  for (auto at = starts_.rbegin(); at != starts_.rend(); ++at)
    if (at->second.alive && !at->second.orphan) return &at->second;
  return nullptr;
}

bool ScriptJobs::healthy(const Start& s) const {
  return s.alive && !s.orphan && !s.frozen && !s.failing && !s.leaves && s.stage != Stage::Leave;
}

std::uint32_t ScriptJobs::processes_on(std::uint64_t job, const NodeName& node) const {
  std::uint32_t count = 0;
  for (const auto& [number, s] : starts_)
    if (s.alive && s.job == job && s.stage != Stage::Boot &&
        std::find(s.nodes.begin(), s.nodes.end(), node) != s.nodes.end())
      count += policy_.train.ranks_per_node;
  return count;
}

Iteration ScriptJobs::saved() const {
  const auto files = core::resume_files(policy_.checkpoints.format, kTree, Iteration{});
  const auto text = files_.content.find(files.names.front().path);
  if (text == files_.content.end()) return {};
  return Iteration(std::strtoull(text->second.c_str(), nullptr, 10));
}

bool ScriptJobs::is_switched() const {
  const std::string& path = policy_.train.kill_switch;
  return !path.empty() && files_.content.contains(path);
}

void ScriptJobs::plan(Start& s, Duration wait, void (ScriptJobs::*what)(Start&)) {
  time_.after(wait, [this, number = s.number, serial = s.serial, what] {
    Start& then = starts_.at(number);
    if (then.alive && then.serial == serial) (this->*what)(then);
  });
}

void ScriptJobs::enter(Start& s, Stage stage, Duration lasts, void (ScriptJobs::*next)(Start&)) {
  s.stage = stage;
  s.stage_since = time_.now();
  plan(s, lasts, next);
}

void ScriptJobs::job_started(const SimJob& job, std::uint32_t task) {
  Start s;
  s.number = static_cast<std::uint32_t>(starts_.size() + 1);
  s.job = job.id;
  s.task = task;
  s.nodes = job.state.at(task).nodes;
  Start& here = starts_.emplace(s.number, std::move(s)).first->second;
  enter(here, Stage::Boot, scenario_.cluster.boot, &ScriptJobs::begin);
}

void ScriptJobs::begin(Start& s) {
  hooks_.begins(s);
  enter(s, Stage::Startup, scenario_.training.startup, &ScriptJobs::load);
}

void ScriptJobs::load(Start& s) {
  if (hooks_.doomed()) {
    hooks_.say("a rank dies (a module is broken)");
    return fail(s, 1s);
  }
  const Duration storage = std::max<Duration>(0s, hooks_.storage_free() - time_.now());
  enter(s, Stage::Load, scenario_.training.load + storage, &ScriptJobs::loaded);
}

void ScriptJobs::loaded(Start& s) {
  s.base = saved();
  hooks_.say(fmt::format("job {}_{} resumes from {}", s.job, s.task, s.base.value));
  if (s.base.value >= scenario_.training.total || s.leaves || is_switched()) return leave(s);
  iterate(s);
}

void ScriptJobs::iterate(Start& s) {
  const bool slow = std::any_of(s.nodes.begin(), s.nodes.end(), [this](const NodeName& node) {
    return cluster_.slow().contains(node);
  });
  const Duration step = scenario_.training.iteration;
  enter(s, Stage::Iterate, slow ? step + step / 16 : step, &ScriptJobs::iterated);
}

void ScriptJobs::iterated(Start& s) {
  s.base = Iteration(s.base.value + 1);
  (s.base > best_ ? useful_ : lost_) += scenario_.training.iteration;
  best_ = std::max(best_, s.base);
  if (!s.orphan) reached_ = s.base;
  write_line(s.base, false);
  const std::uint64_t total = scenario_.training.total;
  if (s.base.value + kNear == total) hooks_.nears_end();
  const bool due = s.base.value % scenario_.training.save_every == 0;
  if (s.base.value >= total || due || s.leaves || s.saves || is_switched()) return save(s);
  iterate(s);
}

void ScriptJobs::save(Start& s) {
  s.saves = false;
  const Duration storage = std::max<Duration>(0s, hooks_.storage_free() - time_.now());
  enter(s, Stage::Save, scenario_.training.save + storage, &ScriptJobs::save_done);
}

void ScriptJobs::save_done(Start& s) {
  if (hooks_.disk_full()) {
    hooks_.say("a rank dies (No space left on device)");
    return fail(s, 1s);
  }
  const auto files = core::resume_files(policy_.checkpoints.format, kTree, s.base);
  files_.content[files.checkpoint + "/shard"] = std::to_string(s.number);
  files_.content[files.names.front().path] = files.names.front().text;
  if (std::find(checkpoints_.begin(), checkpoints_.end(), s.base) == checkpoints_.end())
    checkpoints_.push_back(s.base);
  write_line(s.base, true);
  if (s.base.value >= scenario_.training.total || s.leaves || is_switched()) return leave(s);
  iterate(s);
}

void ScriptJobs::write_line(Iteration iteration, bool is_save) {
  ScriptLine line;
  line.seen_from = time_.now() + random_.between(0s, kSeenLate);
  if (!lines_.empty()) line.seen_from = std::max(line.seen_from, lines_.back().seen_from);
  line.iteration = iteration;
  line.elapsed_ms = 1e3 * to_seconds(scenario_.training.iteration);
  line.saved = is_save;
  lines_.push_back(line);
}

void ScriptJobs::leave(Start& s) {
  enter(s, Stage::Leave, random_.between(50ms, 3s), &ScriptJobs::left);
}

void ScriptJobs::left(Start& s) {
  const bool over = s.base.value >= scenario_.training.total;
  end(s, over || !policy_.train.finished.exit_zero ? 0 : kLeftEarly);
}

void ScriptJobs::fail(Start& s, Duration wait) {
  ++s.serial;
  s.failing = true;
  plan(s, wait, &ScriptJobs::failed);
}
void ScriptJobs::failed(Start& s) {
  end(s, 1);
}
void ScriptJobs::gone(Start& s) {
  ++s.serial;
  s.alive = false;
}

void ScriptJobs::end(Start& s, int code) {
  gone(s);
  const auto job = cluster_.jobs().find(s.job);
  if (s.orphan || job == cluster_.jobs().end() ||
      job->second.state.at(s.task).state != core::JobState::Running)
    return;
  const bool over = code == 0 && s.base.value >= scenario_.training.total;
  hooks_.say(
      fmt::format("job {}_{} exits with {} at iteration {}", s.job, s.task, code, s.base.value));
  if (over) hooks_.completes(s);
  cluster_.task_left(s.job, s.task, code);
}

void ScriptJobs::job_killed(const SimJob& job, std::uint32_t task, bool gently) {
  for (auto& [number, s] : starts_) {
    if (!s.alive || s.orphan || s.job != job.id || s.task != task) continue;
    if (!gently) {
      gone(s);
      continue;
    }
    ++s.serial;
    s.leaves = true;
    plan(s, random_.between(50ms, scenario_.cluster.completing * 9 / 10), &ScriptJobs::gone);
  }
}

void ScriptJobs::signalled(const SimJob& job, std::uint32_t task) {
  for (auto& [number, s] : starts_) {
    if (!s.alive || s.orphan || s.job != job.id || s.task != task) continue;
    hooks_.say(fmt::format("job {}_{} gets its signal", s.job, s.task));
    (goes_on_ ? s.saves : s.leaves) = true;
  }
}

// Read between two iterations; what begins meanwhile sees it as well.
void ScriptJobs::look_at_switch() {
  if (!is_switched()) return;
  for (auto& [number, s] : starts_)
    if (s.alive) s.leaves = true;
}

bool ScriptJobs::crash(const std::string& how, std::optional<NodeName> node) {
  Start* s = live();
  if (s == nullptr || !healthy(*s) || s->stage == Stage::Boot) return false;
  if (!node) node = s->nodes[random_.below(s->nodes.size())];
  if (std::find(s->nodes.begin(), s->nodes.end(), *node) == s->nodes.end()) return false;
  hooks_.say(fmt::format("a rank on {} dies ({})", node->text, how));
  fail(*s, random_.between(1s, 10s));
  return true;
}

bool ScriptJobs::freeze() {
  Start* s = live();
  if (s == nullptr || !healthy(*s) || s->stage == Stage::Boot) return false;
  ++s->serial;
  s->frozen = true;
  hooks_.say("its ranks stand still");
  return true;
}

bool ScriptJobs::flap(Duration lasts) {
  Start* s = live();
  if (s == nullptr || !healthy(*s) || s->stage != Stage::Iterate) return false;
  if (lasts > kGivesUp) return crash("NCCL gives up");
  ++s->serial;
  s->frozen = true;
  time_.after(lasts, [this, number = s->number, serial = s->serial] {
    Start& then = starts_.at(number);
    if (!then.alive || then.serial != serial) return;
    then.frozen = false;
    iterate(then);
  });
  return true;
}

// Its peers wait for it until the scheduler has noticed.
bool ScriptJobs::lose_node(bool first) {
  Start* s = live();
  if (s == nullptr || s->stage == Stage::Boot) return false;
  const NodeName node = first ? s->nodes.front() : s->nodes[random_.below(s->nodes.size())];
  ++s->serial;
  s->failing = true;
  cluster_.node_dies(node);
  return true;
}

// Its node is cut off from the controller, or it is a mistake of the controller's.
bool ScriptJobs::orphan() {
  Start* s = live();
  if (s == nullptr || !healthy(*s) || s->stage == Stage::Boot) return false;
  const auto job = cluster_.jobs().find(s->job);
  if (job == cluster_.jobs().end() ||
      job->second.state.at(s->task).state != core::JobState::Running)
    return false;
  if (random_.chance(500)) {
    const NodeName node = s->nodes[random_.below(s->nodes.size())];
    cluster_.nodes().at(node).told_down = true;
    time_.after(scenario_.cluster.repair, [this, node] { cluster_.repair(node); });
  }
  s->orphan = true;
  hooks_.say(fmt::format("job {}_{} trains on, unknown to the scheduler", s->job, s->task));
  cluster_.take_for_dead(s->job, s->task);
  time_.after(random_.between(1min, kOrphanLives), [this, number = s->number] {
    Start& then = starts_.at(number);
    if (then.alive) gone(then);
  });
  return true;
}

void ScriptJobs::end_orphans() {
  for (auto& [number, s] : starts_)
    if (s.alive && s.orphan) gone(s);
}

}  // namespace stoker::sim
