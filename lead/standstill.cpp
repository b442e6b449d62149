// The lead itself stood still: SLURM suspended its job (`scontrol suspend`, gang scheduling), its
// virtual machine was moved, or its disk held it up. Every process of a suspended job stands still
// with it. So the silence of that time says nothing about a rank or a node, and no deadline passed
// in it.
#include <fmt/format.h>

#include "common/overloaded.hpp"
#include "lead/handlers.hpp"

namespace stoker::lead {
namespace {

// A Tick comes at each beat, and no beat is later than this on a machine that is only busy.
constexpr Duration kStandstill = 3s;

void put_off(Presence& presence, Duration gap) {
  if (auto* closed = std::get_if<Closed>(&presence)) closed->until += gap;
  if (auto* lost = std::get_if<Lost>(&presence)) lost->gone_at += gap;
}

void put_off(Stage& stage, Duration gap) {
  std::visit(Overloaded{[&](Gathering& s) { s.since += gap; },
                        [&](Benching& s) {
                          s.asked += gap;
                          s.until += gap;
                        },
                        [&](Running& s) { s.since += gap; }, [&](Waiting& s) { s.until += gap; },
                        [](auto&) {}},
             stage);
}

}  // namespace

void note_standstill(Turn& turn) {
  State& state = turn.state;
  if (state.beat_at == Instant{} || turn.at - state.beat_at <= kStandstill) return;
  const Duration gap = turn.at - std::max(state.beat_at, state.awake_at);
  const bool first = state.awake_at < state.beat_at;
  state.awake_at = turn.at;
  for (auto& [node, agent] : state.agents) put_off(agent.presence, gap);
  if (state.give_up_at) *state.give_up_at += gap;
  put_off(state.stage, gap);
  if (state.stacks) state.stacks->until += gap;
  if (state.search) state.search->until += gap;
  if (first)
    turn.notice(
        fmt::format("the lead agent stood still for {}: its job was suspended, or its node "
                    "was; the silence of its ranks and agents is counted from now on",
                    format_duration(gap)));
}

Duration silence_since(const Turn& turn, Instant heard_at) {
  return turn.at - std::max(heard_at, turn.state.awake_at);
}

}  // namespace stoker::lead
