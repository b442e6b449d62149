// The end of an attempt: exits, the proof that all is gone, and what the lead does about a failure.
#include <algorithm>
#include <fmt/format.h>

#include "common/last_line.hpp"
#include "lead/handlers.hpp"
#include "wire/exit_code.hpp"

namespace stoker::lead {
namespace {

bool is_failure(const wire::RankExited& exit) {
  return exit.signal != 0 || !wire::is_planned_exit(exit.code);
}
int code_of(const wire::RankExited& exit) {
  return exit.signal != 0 ? 128 + exit.signal : exit.code;
}

// The last line of what the rank that failed first has said.
std::string last_words(const std::optional<Failure>& failure) {
  constexpr std::size_t kMost = 300;
  if (!failure || !failure->first) return {};
  const std::string_view text = last_line_of(failure->first->last_lines);
  if (text.empty()) return {};
  return fmt::format("; rank {} said last: {}", failure->first->rank.value, text.substr(0, kMost));
}

// All ranks have left as planned: the highest of their codes.
std::optional<int> planned_code(const State& state, std::size_t world) {
  int planned = 0;
  for (const auto& [rank, exit] : state.exits) {
    if (is_failure(exit)) return std::nullopt;
    planned = std::max(planned, exit.code);
  }
  return state.exits.size() == world ? std::optional(planned) : std::nullopt;
}

wire::AttemptEnded ended_event(const State& state, const Running& running) {
  wire::AttemptEnded event;
  event.attempt = state.attempt;
  const std::size_t world = running.nodes.size() * state.setup.start.orders.ranks_per_node;
  event.all_zero = state.exits.size() == world;
  for (const auto& [rank, exit] : state.exits) {
    event.all_zero = event.all_zero && code_of(exit) == 0;
    if (!is_failure(exit)) event.worst_code = std::max(event.worst_code, exit.code);
  }
  if (running.failure && running.failure->first) {
    event.worst_code = code_of(*running.failure->first);
    event.first_rank = running.failure->first->rank;
    event.first_node = running.failure->first->node;
  } else if (running.failure) {
    event.worst_code = 1;  // a node was lost
  }
  event.told = !std::holds_alternative<GoOn>(running.ask);
  return event;
}

}  // namespace

void stop_all(Turn& turn, wire::StopHow how) {
  const auto* running = turn.in<Running>();
  if (running == nullptr) return;
  for (const NodeName& node : running->nodes)
    turn.send(node, wire::StopRanks{turn.state.attempt, how});
}

void on_rank_gone(Turn& turn, const wire::RankGone& gone) {
  State& state = turn.state;
  const wire::RankExited& exit = gone.exit;
  if (exit.attempt != state.attempt || !state.exits.emplace(exit.rank, exit).second) return;
  if (state.exits.size() == 1)
    fold_and_report(turn, Fold::Always);  // how far the attempt came, in front of its end
  turn.report(exit);
  // What was copied since may be wrong on one of the ranks; what was saved had been compared.
  if (exit.code == wire::number_of(wire::ExitCode::NumbersDiffer)) state.snapshots_through.clear();
  auto* running = turn.in<Running>();
  if (running == nullptr || exit.expected || !is_failure(exit)) return;
  if (running->failure) {
    if (!running->failure->first) running->failure->first = exit;
    return;
  }
  running->failure = Failure{exit};
  stop_all(turn, wire::StopHow::Crash);  // its peers would wait for it
}

void check_end(Turn& turn) {
  auto* running = turn.in<Running>();
  if (running == nullptr || !running->holding.empty()) return;
  Judging judging;
  judging.ended = ended_event(turn.state, *running);
  judging.planned = planned_code(turn.state, running->nodes.size() * turn.orders().ranks_per_node);
  judging.last_words = last_words(running->failure);
  judging.ask = running->ask;
  fold_and_report(turn, Fold::Always);
  turn.state.stage = std::move(judging);
  turn.act(LookForEnd{});
}

void after_failure(Turn& turn, const Judging& judging) {
  const int worst = judging.ended.worst_code;
  const int code = worst > 0 && worst < 256 ? worst : 1;
  if (!turn.orders().in_allocation)
    return leave(turn, code,
                 fmt::format("the ranks failed (exit {}); restarts inside the allocation are off{}",
                             worst, judging.last_words));
  turn.state.stage =
      Waiting{choose(turn), turn.at + turn.orders().orphan_grace, code, judging.last_words};
}

void orphaned(Turn& turn) {
  const Waiting waiting = *turn.in<Waiting>();
  const wire::Orders& orders = turn.orders();
  if (turn.state.restarts.own >= orders.restart_budget)
    return leave(turn, waiting.code,
                 fmt::format("the ranks failed and all {} restarts are used up{}",
                             orders.restart_budget, waiting.last_words));
  const std::uint32_t own = ++turn.state.restarts.own;
  const Duration grace = orders.orphan_grace;
  begin_attempt(turn,
                {{grace > Duration{} ? "orphaned for " + format_duration(grace)
                                     : fmt::format("restart {} of {}", own, orders.restart_budget)},
                 waiting.choice});
}

}  // namespace stoker::lead
