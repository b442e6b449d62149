// World: the very engine that the daemon runs, on ports in memory and in virtual time. Effects are
// performed inline, after the feed that decided them; their results are fed back at the same
// moment. kill() forgets the engine and all effects not yet performed, as kill -9 does.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "core/state.hpp"
#include "sim/memory_journal.hpp"
#include "sim/ports.hpp"

namespace stoker::sim {

class World {
 public:
  // Sees every row, in order.
  using Observer = std::function<void(const core::JournalRow&)>;
  explicit World(Observer observer = {});

  Status start(const core::DaemonStarted& started);
  void kill();
  Status feed(core::Input input);
  Status feed_turn(std::vector<core::Input> inputs);
  // Moves the clock, with a Tick at each moment the decider asked for. `before_tick` gives the
  // up-to-date digests.
  Status advance_to(Instant at, const std::function<std::vector<core::Input>()>& before_tick = {});
  void drop_effects(bool drop) { drop_effects_ = drop; }

  [[nodiscard]] const core::SiteState& state() const { return engine_->state(); }
  [[nodiscard]] const core::Engine& engine() const { return *engine_; }

  SimClock clock;
  MemoryJournal journal;
  SimFiles files;
  SimAlerts alerts;
  SimScheduler scheduler;

 private:
  struct Runner : core::EffectRunner {
    std::deque<core::Intent> waiting;
    void start(const core::Intent& intent) override { waiting.push_back(intent); }
  };
  Status drain();
  void observe();

  Observer observer_;
  Runner runner_;
  bool drop_effects_ = false;
  std::string build_ = "sim";
  std::unique_ptr<core::Engine> engine_;
};

}  // namespace stoker::sim
