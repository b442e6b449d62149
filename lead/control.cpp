// Words from outside: control.json, switch files, and the requests that come from them.
#include <algorithm>
#include <fmt/format.h>

#include "lead/handlers.hpp"
#include "wire/lineage.hpp"

namespace stoker::lead {
namespace {

constexpr Duration kStacksLimit = 70s;

bool is_leaving(const State& state) {
  if (const auto* running = std::get_if<Running>(&state.stage))
    return std::holds_alternative<Leave>(running->ask);
  if (const auto* judging = std::get_if<Judging>(&state.stage))
    return std::holds_alternative<Leave>(judging->ask);
  const auto* concluding = std::get_if<Concluding>(&state.stage);
  return concluding != nullptr && concluding->patience == Patience::None;
}

// Of the attempt that runs, or has just ended; null: no attempt to ask.
Ask* ask_of(Turn& turn) {
  if (auto* running = turn.in<Running>()) return &running->ask;
  if (auto* judging = turn.in<Judging>()) return &judging->ask;
  return nullptr;
}

// A stop that a person asked of the agents themselves is the end of the run; every other one is
// not.
void leave_as_asked(Turn& turn, const Leave& asked) {
  if (asked.by.empty()) return leave(turn, 0, asked.why);
  conclude(turn, end_mark(turn, wire::End::Stopped, asked.by, asked.why), asked.why, {},
           Patience::None);
}

std::string can_save(Turn& turn) {
  if (turn.in<Running>() == nullptr) return "no ranks are running";
  if (!turn.orders().save_signal.empty()) return "";
  for (const auto& [node, samples] : turn.state.samples)
    for (const wire::RankSample& s : samples.ranks)
      if (s.page) return "";
  return "refused: the command writes no heartbeat page and train.save_signal is not set";
}

void save(Turn& turn, std::uint64_t value, const std::string& why) {
  const std::string problem = can_save(turn);
  wire::Control& done = turn.state.done;
  if (value > done.save) turn.report(wire::Acknowledged{"save", value, problem});
  done.save = value;
  if (!problem.empty()) return turn.notice("save: " + problem);
  turn.notice("save: " + (why.empty() ? std::string("control") : why));
  for (const NodeName& node : turn.in<Running>()->nodes) turn.send(node, wire::SaveNow{value});
}

void take_stacks(Turn& turn) {
  const auto* running = turn.in<Running>();
  if (turn.state.stacks || running == nullptr) return;
  std::string time = format_rfc3339(turn.wall);
  std::replace(time.begin(), time.end(), ':', '-');
  PendingStacks stacks;
  stacks.directory = fmt::format("{}/stacks/{}.{}", wire::generation_name(turn.start().generation),
                                 time, turn.state.done.stacks);
  stacks.waiting = running->nodes.size();
  stacks.until = turn.at + kStacksLimit;
  for (const NodeName& node : running->nodes) turn.send(node, wire::TakeStacks{stacks.directory});
  turn.state.stacks = std::move(stacks);
}

// In all other stages the next attempt is on its way already, or none follows.
void restart(Turn& turn, const Why& why) {
  if (Ask* ask = ask_of(turn)) *ask = Restart{why};
  if (const auto* running = turn.in<Running>(); running != nullptr && !running->failure)
    return stop_all(
        turn, looks_hung(turn.state, *running) ? wire::StopHow::Crash : wire::StopHow::Restart);
  if (auto* waiting = turn.in<Waiting>()) begin_attempt(turn, {why, std::move(waiting->choice)});
}

void take_restart(Turn& turn, const wire::Control& control) {
  const Attempt attempt = turn.state.attempt;
  turn.state.done.restart = control.restart;
  const bool leaving = is_leaving(turn.state);
  const bool done = control.restart_of.value != 0 && control.restart_of < attempt;
  std::string detail;
  if (done) detail = fmt::format("attempt {} runs already", attempt.value);
  if (leaving) detail = "the run is leaving";
  turn.report(wire::Acknowledged{"restart", control.restart, detail});
  if (leaving || done) return;
  restart(turn, {fmt::format("control restart {}{}{}", control.restart,
                             control.reason.empty() ? "" : ": ", control.reason),
                 control.restart});
}

void take_level(Turn& turn, const wire::Control& control) {
  wire::Control& done = turn.state.done;
  done.level = control.level;
  done.leave_of = control.leave_of;
  if (control.leave_of.value != 0 && control.leave_of < turn.state.attempt) {
    turn.report(wire::Acknowledged{
        "level", 1, fmt::format("attempt {} runs already", turn.state.attempt.value)});
    return;
  }
  turn.report(wire::Acknowledged{"level", 1, std::string(name_of(control.level))});
  const std::string why = control.reason.empty() ? "control" : control.reason;
  switch (control.level) {
    case wire::Level::Run: break;  // what has been asked to leave cannot be called back
    case wire::Level::SaveAndLeave: save_and_leave(turn, why); break;
    case wire::Level::LeaveNow: leave_now(turn, why); break;
  }
}

// False: it is not for this generation, or ends it.
bool is_for_us(Turn& turn, const wire::Control& control) {
  const wire::Start& start = turn.start();
  const auto refuse = [&turn](std::string what, bool stale = false) {
    turn.report(wire::ControlRefused{turn.state.setup.node, std::move(what), stale});
    return false;
  };
  if (!control.run.empty() && control.run != start.run)
    return refuse(fmt::format("control of run {} refused", control.run.text));
  if (control.epoch < turn.state.epoch)
    return refuse(fmt::format("control of epoch {} refused, {} is known", control.epoch.value,
                              turn.state.epoch.value),
                  true);
  if (control.generation < start.generation) {
    if (!is_halted(turn.state.setup.order, control))
      return refuse(fmt::format("control of generation {} refused, this is {}",
                                control.generation.value, start.generation.value));
    leave_now(turn, control.halt);  // it was not known yet that we begin
    return false;
  }
  turn.state.epoch = control.epoch;
  if (control.generation == start.generation) return true;
  leave(turn, 1, fmt::format("superseded by generation {}", control.generation.value));
  return false;
}

}  // namespace

void on(Turn& turn, ControlRead event) {
  const wire::Control& control = event.control;
  if (turn.in<Leaving>() != nullptr || !is_for_us(turn, control)) return;
  wire::Control& done = turn.state.done;
  done.halt = control.halt;
  done.exclude = control.exclude;
  for (const NodeName& node : control.exclude) {
    turn.state.parole.paroled.insert(node);
    turn.state.parole.tested.erase(node);  // a new accusation: tested again
  }
  if (control.save > done.save) save(turn, control.save, control.reason);
  if (control.stacks > done.stacks) {
    done.stacks = control.stacks;
    take_stacks(turn);
    const auto& stacks = turn.state.stacks;
    turn.report(wire::Acknowledged{"stacks", control.stacks, stacks ? stacks->directory : ""});
  }
  if (control.restart > done.restart) take_restart(turn, control);
  if (control.level != done.level || control.leave_of != done.leave_of) take_level(turn, control);
}

void on(Turn& turn, SwitchLeft event) {
  if (turn.in<Leaving>() != nullptr) return;
  turn.notice(fmt::format("switch {} by {} taken up by the agent, the daemon is silent{}{}",
                          event.verb, event.by, event.reason.empty() ? "" : ": ", event.reason));
  const std::string why = fmt::format("switch {} by {}", event.verb, event.by);
  if (event.verb == "kill") return leave_now(turn, why, event.by);
  if (event.verb == "stop") return save_and_leave(turn, why, event.by);
  save(turn, turn.state.done.save, why);
}

void save_and_leave(Turn& turn, const std::string& why, const std::string& by) {
  const Leave asked{"saved and exited: " + why, by};
  if (turn.in<Leaving>() != nullptr || turn.in<Concluding>() != nullptr) return;
  Ask* ask = ask_of(turn);
  if (ask == nullptr) return leave_as_asked(turn, asked);
  if (std::holds_alternative<Leave>(*ask)) return;
  *ask = asked;
  const auto* running = turn.in<Running>();
  if (running == nullptr) return;
  turn.notice("saving and leaving: " + why);
  if (!turn.orders().kill_switch.empty()) turn.act(SetKillSwitch{});
  // A crashed attempt is being ended already.
  if (!running->failure) stop_all(turn, wire::StopHow::SaveAndLeave);
}

void leave_now(Turn& turn, const std::string& why, const std::string& by) {
  Leave asked{"left without saving: " + why, by};
  if (turn.in<Leaving>() != nullptr) return;
  if (auto* concluding = turn.in<Concluding>()) {
    concluding->patience = Patience::None;
    return;
  }
  Ask* ask = ask_of(turn);
  if (ask == nullptr) return leave_as_asked(turn, asked);
  if (const auto* before = std::get_if<Leave>(ask)) asked.by = before->by;
  *ask = std::move(asked);
  if (turn.in<Running>() == nullptr) return;
  turn.notice("leaving without saving: " + why);
  stop_all(turn, wire::StopHow::LeaveNow);
}

void on_stacks(Turn& turn, const wire::StacksDone& done) {
  auto& stacks = turn.state.stacks;
  if (!stacks || stacks->directory != done.directory) return;
  stacks->ranks += done.ranks;
  if (--stacks->waiting == 0) group_stacks(turn);
}

void group_stacks(Turn& turn) {
  turn.act(GroupStacks{turn.state.stacks->directory, turn.state.stacks->ranks});
  turn.state.stacks.reset();
}

}  // namespace stoker::lead
