// The end of the run, as its lead knows it: what counts as one, and the durable mark in front of
// everything that says so. Then the end of the job: all processes gone, and the goodbye.
#include <algorithm>
#include <fmt/format.h>

#include "lead/handlers.hpp"
#include "wire/exit_code.hpp"
#include "wire/time_limits.hpp"

namespace stoker::lead {
namespace {

using wire::ExitCode;
constexpr Duration kDaemonsWord = 3s;  // that the rest of the array is cancelled
constexpr Duration kLingerLook = 100ms;
constexpr Duration kGoodbyeLimit = 15s;
constexpr Duration kGoodbyeLook = 5ms;

std::string planned_why(int code) {
  switch (ExitCode{code}) {
    case ExitCode::Finished: return "finished";
    case ExitCode::Left: return "left as planned: saved for its duration or a signal (exit 10)";
    case ExitCode::KillSwitch: return "left as planned: kill switch (exit 11)";
    default: return "left as planned: its last iteration or sample (exit 12)";
  }
}

std::optional<wire::EndMark> stopped_by_switch(const Turn& turn, const EndLooked& looked) {
  const auto& set = looked.kill_switch;
  if (!set) return std::nullopt;
  return end_mark(turn, wire::End::Stopped, set->by,
                  fmt::format("the kill switch {} was set by {} at {}", set->path, set->by,
                              format_rfc3339(set->at)));
}

// All ranks ended with 0: is that the end of the training? Empty: it is not.
std::optional<wire::EndMark> finished_by_exit(const Turn& turn, const Judging& judging,
                                              bool person) {
  const State& state = turn.state;
  if (!judging.ended.all_zero) return std::nullopt;
  const wire::FinishedWhen& when = turn.orders().finished;
  const std::uint64_t total = state.beat.total;
  const std::uint64_t at = std::max(state.beat.iteration_max, state.beat.checkpoint).value;
  const bool asked = (judging.ended.told || person) && wire::ends_by_exit(when, total);
  const bool reached = !asked && wire::reached_end(when, at, total);
  if (!trains_with_stoker(turn.orders()) && !reached) return std::nullopt;
  const std::size_t ranks = state.exits.size();
  return end_mark(
      turn, wire::End::Finished, "",
      fmt::format("all {} rank{} ended with exit code 0 at iteration {}{}", ranks,
                  ranks == 1 ? "" : "s", at, total == 0 ? "" : fmt::format(" of {}", total)));
}

// The attempt is over: is the run?
std::optional<wire::EndMark> end_of_run(const Turn& turn, const Judging& judging,
                                        const EndLooked& looked) {
  if (looked.finish_file)
    return end_mark(turn, wire::End::Finished, "",
                    fmt::format("{} is there", turn.orders().finished.file));
  auto person = stopped_by_switch(turn, looked);
  if (auto finished = finished_by_exit(turn, judging, person.has_value())) return finished;
  if (person) return person;
  const bool ours = trains_with_stoker(turn.orders());
  // Asked to leave without saving, our ranks exit with the same code: that proves nothing.
  if (ours && judging.planned == number_of(ExitCode::KillSwitch) && !judging.ended.told)
    return end_mark(turn, wire::End::Stopped, "", "the training exited on its kill switch");
  if (ours && judging.planned == number_of(ExitCode::ExitPoint))
    return end_mark(turn, wire::End::Stopped, "",
                    "the training reached its exit iteration or samples");
  if (const auto* asked = std::get_if<Leave>(&judging.ask); asked != nullptr && !asked->by.empty())
    return end_mark(turn, wire::End::Stopped, asked->by, asked->why);
  return std::nullopt;
}

void judge(Turn& turn, const Judging& judging, const EndLooked& looked) {
  const auto* leaving = std::get_if<Leave>(&judging.ask);
  const auto* restart = std::get_if<Restart>(&judging.ask);
  if (auto end = end_of_run(turn, judging, looked)) {
    std::string why = judging.planned ? planned_why(*judging.planned) : end->why;
    return conclude(turn, std::move(*end), std::move(why), judging.ended,
                    leaving != nullptr ? Patience::None : Patience::Full);
  }
  turn.report(judging.ended);
  // Asked to restart, any command but ours may end with 0 without being finished.
  const bool again =
      restart != nullptr && (judging.planned != 0 || !trains_with_stoker(turn.orders()));
  if (judging.planned && !again) return leave(turn, 0, planned_why(*judging.planned));
  if (leaving != nullptr) return leave(turn, 0, leaving->why);
  if (restart != nullptr) return begin_attempt(turn, {restart->why, NotChosen{}});
  after_failure(turn, judging);
}

}  // namespace

wire::EndMark end_mark(const Turn& turn, wire::End kind, std::string by, std::string why) {
  const wire::Start& start = turn.start();
  wire::EndMark mark;
  mark.run = start.run;
  mark.generation = start.generation;
  mark.kind = kind;
  mark.by = std::move(by);
  mark.why = std::move(why);
  mark.iteration = std::max(turn.state.beat.iteration_max, turn.state.beat.checkpoint);
  mark.order = start.orders.number;
  mark.token = start.token;
  mark.job = start.job;
  mark.at = turn.wall;
  return mark;
}

void on(Turn& turn, EndLooked event) {
  if (auto* judging = turn.in<Judging>()) return judge(turn, Judging(std::move(*judging)), event);
  auto* looking = turn.in<Looking>();
  if (looking == nullptr) return;
  if (auto end = stopped_by_switch(turn, event)) {
    std::string why = end->why;
    return conclude(turn, std::move(*end), std::move(why), {}, Patience::Full);
  }
  prepare(turn, std::move(looking->next));
}

// The mark first: a job's first act reads it, even while the daemon is away. Then the reports, then
// the goodbye.
void conclude(Turn& turn, wire::EndMark mark, std::string why,
              std::optional<wire::AttemptEnded> last, Patience patience) {
  turn.act(WriteEndMark{mark});
  turn.state.stage =
      Concluding{std::move(mark), std::move(why), std::move(last), patience, Writing{}};
}

void on(Turn& turn, EndWritten event) {
  auto* concluding = turn.in<Concluding>();
  auto* leaving = turn.in<Leaving>();
  if (concluding == nullptr && leaving == nullptr) return;
  if (!event.error.empty())
    turn.notice(
        fmt::format("the end mark cannot be written ({}): the next task may start", event.error));
  auto& last = concluding != nullptr ? concluding->last : leaving->last;
  if (last) {
    last->end = event.mark;
    turn.report(std::move(*last));
    last.reset();
  }
  if (leaving != nullptr) {
    leaving->end = std::move(event.mark);
    return;
  }
  concluding->mark = std::move(event.mark);
  concluding->part = Lingering{turn.at, turn.at};
}

// No generation goes on with the copies that are under way after a finished training; and the
// daemon, if it is there, cancels the array's next task before this one makes room for it.
void linger(Turn& turn, const Tick& tick) {
  auto* concluding = turn.in<Concluding>();
  auto* lingering = std::get_if<Lingering>(&concluding->part);
  if (lingering == nullptr) return;
  const Duration waited = turn.at - lingering->since;
  const bool hurry = concluding->patience == Patience::None;
  const bool copied = hurry || tick.archived || waited > wire::kLastCopies;
  const bool heard =
      hurry || !turn.state.setup.order || !turn.state.done.halt.empty() || waited > kDaemonsWord;
  if (copied && heard) return leave(turn, 0, std::string(concluding->why));
  lingering->look_at = turn.at + kLingerLook;
}

void leave(Turn& turn, int exit_code, const std::string& why) {
  State& state = turn.state;
  if (turn.in<Leaving>() != nullptr) return;
  Leaving leaving{exit_code, why, turn.at, turn.at, {}, {}};
  if (auto* concluding = turn.in<Concluding>()) {
    if (std::holds_alternative<Writing>(concluding->part))
      leaving.last = std::move(concluding->last);
    else
      leaving.end = std::move(concluding->mark);
  }
  for (const auto& [node, agent] : state.agents)
    if (node != state.setup.node) turn.send(node, wire::LeaveWith{exit_code, why});
  turn.act(KillAll{});
  state.stage = std::move(leaving);
}

void try_goodbye(Turn& turn, const Tick& tick) {
  auto* leaving = turn.in<Leaving>();
  const bool others =
      std::any_of(tick.links.begin(), tick.links.end(), [](const Link& link) { return link.up; });
  const bool late = turn.at - leaving->since > kGoodbyeLimit;
  if ((others || !tick.own_clear) && !late) {
    leaving->look_at = turn.at + kGoodbyeLook;
    return;
  }
  if (late) turn.notice("goodbye although not all processes are proven gone");
  turn.act(Quit{wire::Goodbye{turn.state.setup.node, true, leaving->exit_code,
                              std::move(leaving->why), std::move(leaving->end)}});
  turn.state.stage = Left{};
}

}  // namespace stoker::lead
