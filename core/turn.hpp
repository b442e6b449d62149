// Turn: one event on its way through the decider: the state it changes and the decision it makes.
// All files of core/ that handle events work through it, so that every change of state is checked
// against the tables and every effect and reason ends up in the decision.
#pragma once

#include <map>
#include <string>

#include "core/decision.hpp"
#include "core/event.hpp"
#include "core/state.hpp"
#include "core/transitions.hpp"

namespace stoker::core {

struct Turn {
  SiteState& site;
  const Event& event;
  Decision& decision;
  RunState* run = nullptr;  // of the event, or the current one in a site event
  std::map<std::size_t, std::uint32_t> repeated = {};  // ordinal of an action -> failures before

  [[nodiscard]] Instant now() const { return event.at; }
  [[nodiscard]] RunState& r() const;
  [[nodiscard]] const RunName& name() const { return r().policy.run; }
  template <class State>
  [[nodiscard]] State* in() const {
    return std::get_if<State>(&r().training);
  }
  [[nodiscard]] TrainingKind kind() const { return kind_of(r().training); }
  // A job of ours may be running its ranks.
  [[nodiscard]] bool active() const;
  [[nodiscard]] bool blind() const { return site.blind_since.has_value(); }

  // Adds a sentence to the reason.
  void say(const std::string& sentence);
  // Adds an effect; while the run is only observed, nothing but alerts.
  void act(Action action);
  // Changes the training state; the pair must be in the table. The sentence is added to the reason
  // and kept as the state's `why`.
  void go(TrainingState next, Trigger trigger, const std::string& sentence);
  void go(supply::Submission& submission, supply::State next, SupplyTrigger trigger);
  void reject(const std::string& sentence);
};

}  // namespace stoker::core
