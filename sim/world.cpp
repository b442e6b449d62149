// World: one engine on ports in memory.
#include "sim/world.hpp"

#include <fmt/format.h>

namespace stoker::sim {
namespace {

constexpr int kMostTicks = 100'000;   // between two inputs: more is a loop
constexpr int kMostEffects = 10'000;  // in a row at one moment

}  // namespace

World::World(Observer observer) : observer_(std::move(observer)) {}

Status World::start(const core::DaemonStarted& started) {
  build_ = started.build;
  runner_.waiting.clear();
  engine_ = std::make_unique<core::Engine>(journal, runner_, clock, build_);
  const Status begun = engine_->start(started);
  observe();
  if (!begun) return fail(begun.error());
  return drain();
}

void World::kill() {
  engine_.reset();
  runner_.waiting.clear();
}

void World::observe() {
  if (observer_)
    for (const core::JournalRow& row : engine_->last_rows()) observer_(row);
}

Status World::feed(core::Input input) {
  std::vector<core::Input> inputs;
  inputs.push_back(std::move(input));
  return feed_turn(std::move(inputs));
}

Status World::feed_turn(std::vector<core::Input> inputs) {
  STOKER_TRY_STATUS(engine_->feed(std::move(inputs)));
  observe();
  return drain();
}

Status World::drain() {
  if (drop_effects_) {
    runner_.waiting.clear();
    return ok();
  }
  for (int n = 0; !runner_.waiting.empty(); ++n) {
    STOKER_CHECK(n < kMostEffects, "effects answer each other without end");
    const core::Intent intent = runner_.waiting.front();
    runner_.waiting.pop_front();
    core::PerformContext context;
    const auto run = engine_->state().runs.find(intent.run);
    if (run != engine_->state().runs.end()) context.policy = run->second.policy;
    context.state_directory = "/state";
    context.epoch = engine_->state().epoch;
    context.agent_command_prefix = {"stoker-agent"};
    core::Ports ports{clock, scheduler, files, alerts};
    std::vector<core::Input> inputs;
    for (core::EventBody& body : core::perform(intent, context, ports))
      inputs.push_back({intent.run, std::move(body), {}});
    STOKER_TRY_STATUS(engine_->feed(std::move(inputs)));
    observe();
  }
  return ok();
}

Status World::advance_to(Instant at, const std::function<std::vector<core::Input>()>& before_tick) {
  for (int n = 0;; ++n) {
    const auto wake = engine_->wake_at();
    if (!wake || *wake > at) break;
    STOKER_CHECK(n < kMostTicks, "the decider wants to be woken without end");
    clock.move_to(*wake);
    if (before_tick)
      for (core::Input& input : before_tick()) STOKER_TRY_STATUS(feed(std::move(input)));
    STOKER_TRY_STATUS(feed({RunName{}, core::Tick{}, {}}));
    const auto next = engine_->wake_at();
    STOKER_CHECK(!next || *next > clock.now() || !engine_->last_rows().empty(),
                 "a moment stays due after its Tick");
  }
  clock.move_to(at);
  return ok();
}

}  // namespace stoker::sim
