// Daemon: the loop of stokerd in virtual time.
#include "sim/universe/daemon.hpp"

#include <algorithm>

namespace stoker::sim {
namespace {

constexpr Duration kPollActive = 15s, kPollLongest = 300s;  // daemon: pace_of
constexpr int kFailuresUntilBlind = 3;

bool waits_for_the_scheduler(const core::SiteState& state) {
  for (const auto& [name, run] : state.runs) {
    const std::string_view where = core::state_name(run.training);
    if (where != "training" && where != "held" && where != "stopped" && where != "finished")
      return true;
  }
  return false;
}

}  // namespace

Daemon::Daemon(Parts parts, SimJournal journal, Epoch epoch, Hooks hooks)
    : parts_(parts), journal_(std::move(journal)), epoch_(epoch), hooks_(std::move(hooks)) {
  runner_.daemon = this;
  clock_.start_at(WallTime(1'777'600'000s));
}

// What is planned dies with the process.
void Daemon::after(Duration wait, std::function<void()> what) {
  parts_.time.after(wait, [this, life = life_, what = std::move(what)] {
    if (life != life_) return;
    if (asleep_) return after(1s, what);
    what();
  });
}

void Daemon::start(Duration away) {
  ++life_;
  slurm::SlurmOptions options;
  options.user = "trainer";
  options.question_every = 0s;
  options.now = [this] { return parts_.time.now(); };
  scheduler_ = std::make_unique<slurm::SlurmScheduler>(parts_.slurm, parts_.files, options);
  diff_ = std::make_unique<core::ViewDiff>(kFailuresUntilBlind);
  last_view_.reset();
  engine_ = std::make_unique<core::Engine>(journal_, runner_, clock_, "sim");
  clock_.move_to(parts_.time.now());
  core::DaemonStarted started;
  started.build = "sim";
  started.epoch = epoch_;
  started.away = away;
  const Status begun = engine_->start(started);
  STOKER_CHECK(begun, begun ? "" : begun.error().message());
  for (const core::JournalRow& row : engine_->last_rows()) hooks_.row(row, engine_->state());
  plan_tick();
  plan_poll(1s);
}

void Daemon::kill() {
  ++life_;
  if (tick_) parts_.time.cancel(*tick_);
  tick_.reset();
  if (parts_.broken == Guard::JournalFirst) journal_.lose_tail(1 + parts_.random.below(4));
  engine_.reset();
  scheduler_.reset();
  waiting_.clear();
}

void Daemon::jump_clock(Duration by) {
  clock_.start_at(clock_.wall() - (clock_.now() - Instant{}) + by);
}

void Daemon::feed(core::Input input) {
  std::vector<core::Input> inputs;
  inputs.push_back(std::move(input));
  deliver(std::move(inputs));
}

void Daemon::deliver(std::vector<core::Input> inputs) {
  if (!up() || inputs.empty()) return;
  clock_.move_to(parts_.time.now());
  const Status fed = engine_->feed(std::move(inputs));
  STOKER_CHECK(fed, fed ? "" : fed.error().message());
  for (const core::JournalRow& row : engine_->last_rows()) hooks_.row(row, engine_->state());
  plan_tick();
}

void Daemon::plan_tick() {
  if (tick_) parts_.time.cancel(*tick_);
  tick_.reset();
  const auto wake = engine_->wake_at();
  if (!wake) return;
  const Instant at = std::max(*wake, parts_.time.now() + 1ms);
  tick_ = parts_.time.at(at, [this, life = life_] {
    if (life != life_) return;
    tick_.reset();
    if (asleep_) return after(1s, [this] { plan_tick(); });
    std::vector<core::Input> inputs = hooks_.digests();
    inputs.push_back({RunName{}, core::Tick{}, {}});
    deliver(std::move(inputs));
  });
}

void Daemon::plan_effect(const core::Intent& intent) {
  waiting_.push_back(intent);
  if (waiting_.size() == 1) after(parts_.random.between(5ms, 400ms), [this] { perform_next(); });
}

void Daemon::perform_next() {  // in order: a submission needs its orders on disk
  const core::Intent intent = waiting_.front();
  waiting_.pop_front();
  perform(intent);
  if (!waiting_.empty()) after(parts_.random.between(5ms, 400ms), [this] { perform_next(); });
}

// Two instants: what the world sees, and when the daemon learns of it. A kill may come between.
void Daemon::perform(const core::Intent& intent) {
  if (!hooks_.may_act(*this, intent)) return;
  core::PerformContext context;
  context.policy = parts_.policy;
  context.state_directory = "/state";
  context.epoch = epoch_;
  context.agent_command_prefix = {"stoker-agent"};
  core::Ports ports{clock_, *scheduler_, parts_.files, parts_.alerts};
  hooks_.acted(intent);
  auto results = core::perform(intent, context, ports);
  if (parts_.broken == Guard::Stillness && std::holds_alternative<core::LookAtTree>(intent.action))
    results = {core::EffectDone{intent.key, core::LookAtTree::kKind, {}, "still"}};
  if (parts_.broken == Guard::SubmitToken)  // no answer is taken for a refusal
    for (core::EventBody& body : results)
      if (const auto* unknown = std::get_if<core::EffectUnknown>(&body);
          unknown != nullptr && unknown->action == core::Submit::kKind)
        body = core::EffectFailed{EffectKey(unknown->key), std::string(unknown->action),
                                  std::string(unknown->why)};
  after(parts_.random.between(1ms, 500ms), [this, run = intent.run, results] {
    std::vector<core::Input> inputs;
    for (const core::EventBody& body : results) inputs.push_back({run, body, {}});
    deliver(std::move(inputs));
  });
}

void Daemon::plan_poll(Duration wait) {
  after(wait, [this] { poll(); });
}

void Daemon::poll() {
  std::vector<core::JobExpected> expected;
  for (const auto& [name, run] : engine_->state().runs)
    for (const auto& [token, s] : run.jobs.supply)
      if (s.live() && s.job.job != 0) expected.push_back({token, s.job});
  for (const auto& [name, run] : engine_->state().runs)
    for (const auto& [follower, of] : run.followers)
      for (const core::followers::Following& f : of.open)
        if (f.job && f.job->job.job != 0) expected.push_back({f.job->token, f.job->job});
  scheduler_->expect(std::move(expected));
  auto view = scheduler_->observe({parts_.policy.run});
  const auto run_of = [this](const Token&) { return parts_.policy.run; };
  std::vector<core::Input> inputs;
  if (parts_.broken == Guard::BlindIsNotDead && last_view_) {  // what is not seen has ended
    core::SchedulerView seen = view ? *view : core::SchedulerView{};
    for (core::JobSeen job : last_view_->jobs) {
      const bool there =
          std::any_of(seen.jobs.begin(), seen.jobs.end(),
                      [&](const core::JobSeen& other) { return other.job == job.job; });
      if (there || job.state != core::JobState::Running) continue;
      job.state = core::JobState::Completed;
      seen.jobs.push_back(job);
    }
    inputs = diff_->good(seen, run_of);
  } else {
    inputs = view ? diff_->good(*view, run_of) : diff_->failed(view.error().message());
  }
  if (view) last_view_ = *view;
  Duration pause = waits_for_the_scheduler(engine_->state()) ? kPollActive : parts_.poll;
  for (int i = 0; i < diff_->failures() && pause < kPollLongest; ++i) pause *= 2;
  deliver(std::move(inputs));
  plan_poll(std::min(pause, std::max(kPollLongest, parts_.poll)));
}

}  // namespace stoker::sim
