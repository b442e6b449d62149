// Daemon: one simulated stokerd: the very engine, slurm::SlurmScheduler and core::ViewDiff that the
// real one runs, with effects that take time, eyes that poll, and a life that ends by kill -9
// between any two steps.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "core/engine/view_diff.hpp"
#include "core/state.hpp"
#include "sim/cluster/slurm_text.hpp"
#include "sim/ports.hpp"
#include "sim/universe/sim_journal.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::sim {

class Daemon {
 public:
  struct Hooks {
    std::function<void(const core::JournalRow&, const core::SiteState&)> row;
    // Asked right before an effect is performed: false = the lease is another's, nothing is done.
    std::function<bool(const Daemon&, const core::Intent&)> may_act;
    std::function<void(const core::Intent&)> acted;
    std::function<std::vector<core::Input>()> digests;  // before a Tick
    std::function<bool()> disk_full;
  };
  struct Parts {
    Timeline& time;
    Random& random;
    SlurmText& slurm;
    SimFiles& files;
    SimAlerts& alerts;
    const core::RunPolicy& policy;  // as the daemon gets it
    Guard broken;
    Duration poll;  // while nothing is on its way
  };
  Daemon(Parts parts, SimJournal journal, Epoch epoch, Hooks hooks);

  void start(Duration away);
  void kill();  // forgets everything but its journal
  void feed(core::Input input);
  [[nodiscard]] bool up() const { return engine_ != nullptr; }
  void sleep(bool asleep) { asleep_ = asleep; }  // a stopped process: it goes on later
  [[nodiscard]] bool asleep() const { return asleep_; }
  [[nodiscard]] const core::SiteState& state() const { return engine_->state(); }
  [[nodiscard]] Epoch epoch() const { return epoch_; }
  SimJournal& journal() { return journal_; }
  void jump_clock(Duration by);

 private:
  struct Runner : core::EffectRunner {
    Daemon* daemon = nullptr;
    void start(const core::Intent& intent) override { daemon->plan_effect(intent); }
  };
  void plan_effect(const core::Intent& intent);
  void perform_next();
  void perform(const core::Intent& intent);
  void plan_tick();
  void plan_poll(Duration wait);
  void poll();
  void deliver(std::vector<core::Input> inputs);
  void after(Duration wait, std::function<void()> what);

  Parts parts_;
  SimJournal journal_;
  Epoch epoch_;
  Hooks hooks_;
  SimClock clock_;
  Runner runner_;
  std::unique_ptr<core::Engine> engine_;
  std::unique_ptr<slurm::SlurmScheduler> scheduler_;
  std::unique_ptr<core::ViewDiff> diff_;
  std::deque<core::Intent> waiting_;
  std::uint64_t life_ = 0;
  bool asleep_ = false;
  std::optional<Timeline::Key> tick_;
  std::optional<core::SchedulerView> last_view_;
};

}  // namespace stoker::sim
