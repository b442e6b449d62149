// step(): the lead of a generation as a pure machine. It gathers the agents, starts attempts, folds
// their beats, obeys control.json, restarts inside the allocation and says goodbye. No clock, file,
// socket, thread or environment: the shell (worker/agent/lead.cpp) turns what it sees into events
// and performs the actions.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "lead/action.hpp"
#include "lead/event.hpp"
#include "lead/state.hpp"

namespace stoker::lead {

// Before the first event (Began). `resume`: what was found when the generation was minted.
// `before`: control.json as it was then; its counters are done. `leave_at`: the time limit.
State initial_state(Setup setup, ChosenCheckpoint resume,
                    const std::optional<wire::Control>& before, std::optional<Instant> leave_at);

struct Step {
  State state;
  std::vector<Action> actions;  // to perform in this order
};
// An event that means nothing in its stage changes nothing.
Step step(State state, Event event);

// When the lead wants its next Tick; empty once it has left.
std::optional<Instant> wake_at(const State& state);

// A start may go on from these: what the running attempt came from and what the next one will.
std::set<wire::CheckpointId> checkpoints_in_use(const State& state);

// The daemon wants nothing of a submission to begin. `order`: that was current at the submission;
// empty: a person submitted it by hand, which is that person's word. A submission newer than the
// halt was made after a person had lifted it.
bool is_halted(const std::optional<OrderNumber>& order, const wire::Control& control);

// Its exit codes are known; those of any other command mean failure unless they are 0.
bool trains_with_stoker(const wire::Orders& orders);

}  // namespace stoker::lead
