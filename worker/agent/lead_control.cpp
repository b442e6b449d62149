// Words from outside: control.json, switch files, signals, the time limit; and the beats.
#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <thread>

#include "worker/agent/ending.hpp"
#include "worker/agent/lead.hpp"
#include "worker/agent/stacks.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kStacksLimit = 70s;
constexpr double kHungFactor = 3;
constexpr double kHungFloorMs = 2000;

}  // namespace

void Lead::on_control(const wire::Control& control) {
  if (stage_ == Stage::Leaving) return;
  if (!control.run.empty() && control.run != start_.run)
    return notice(fmt::format("control of run {} refused", control.run.text));
  if (control.epoch < epoch_)
    return notice(
        fmt::format("control of epoch {} refused, {} is known", control.epoch.value, epoch_.value));
  if (control.generation < start_.generation && is_halted(context_, control))
    return leave_now(control.halt);  // it was not known yet that we begin
  if (control.generation < start_.generation)
    return notice(fmt::format("control of generation {} refused, this is {}",
                              control.generation.value, start_.generation.value));
  epoch_ = control.epoch;
  if (control.generation > start_.generation)
    return leave(1, fmt::format("superseded by generation {}", control.generation.value));
  done_.halt = control.halt;
  done_.exclude = control.exclude;
  for (const NodeName& node : control.exclude) {
    paroled_.insert(node);
    benched_.erase(node);  // a new accusation: tested anew
  }
  if (control.save > done_.save) save(control.save, control.reason);
  if (control.stacks > done_.stacks) {
    done_.stacks = control.stacks;
    take_stacks();
    tell(wire::Acknowledged{"stacks", control.stacks, stacks_ ? stacks_->directory : ""});
  }
  if (control.restart > done_.restart) {
    done_.restart = control.restart;
    const bool leaving = leaving_why_.has_value();
    const bool done = control.restart_of.value != 0 && control.restart_of < attempt_;
    tell(wire::Acknowledged{"restart", control.restart,
                            leaving ? "the run is leaving"
                            : done  ? fmt::format("attempt {} runs already", attempt_.value)
                                    : ""});
    if (!leaving && !done)
      restart(fmt::format("control restart {}{}{}", control.restart,
                          control.reason.empty() ? "" : ": ", control.reason));
  }
  if (control.level != done_.level) {
    done_.level = control.level;
    tell(wire::Acknowledged{"level", 1, std::string(name_of(control.level))});
    on_level(control.level, control.reason);
  }
}

void Lead::on_level(wire::Level level, const std::string& reason) {
  const std::string why = reason.empty() ? "control" : reason;
  switch (level) {
    case wire::Level::Run: break;  // what has been asked to leave cannot be called back
    case wire::Level::SaveAndLeave: save_and_leave(why); break;
    case wire::Level::LeaveNow: leave_now(why); break;
  }
}

void Lead::on_switch(const SwitchSeen& seen) {
  if (stage_ == Stage::Leaving) return;
  notice(fmt::format("switch {} by {} taken up by the agent, the daemon is silent{}{}", seen.verb,
                     seen.by, seen.reason.empty() ? "" : ": ", seen.reason));
  const std::string why = fmt::format("switch {} by {}", seen.verb, seen.by);
  if (seen.verb != "save" && !leaving_why_) stopped_by_ = seen.by;
  if (seen.verb == "kill") return leave_now(why);
  if (seen.verb == "stop") return save_and_leave(why);
  save(done_.save, why);
}

void Lead::save_and_leave(const std::string& why) {
  if (leaving_why_ || stage_ == Stage::Leaving || concluding_) return;
  leaving_why_ = "saved and left: " + why;
  if (stage_ != Stage::Running) return leave_as_asked();
  notice("saving and leaving: " + why);
  if (!start_.orders.kill_switch.empty())
    std::thread([path = kill_switch_of(context_, start_.orders)] {
      set_kill_switch(path);
    }).detach();
  if (!failed_) stop_all(StopHow::SaveAndLeave);  // a crashed attempt is being ended already
}

void Lead::leave_now(const std::string& why) {
  leaving_why_ = "left without saving: " + why;
  if (stage_ == Stage::Leaving || concluding_) return;
  if (stage_ != Stage::Running) return leave_as_asked();
  notice("leaving without saving: " + why);
  stop_all(StopHow::LeaveNow);
}

std::string Lead::can_save() const {
  if (stage_ != Stage::Running) return "no ranks are running";
  if (!start_.orders.save_signal.empty()) return "";
  for (const auto& [node, follower] : followers_)
    for (const RankSample& s : follower.samples.ranks)
      if (s.page) return "";
  return "refused: the command writes no heartbeat page and train.save_signal is not set";
}

void Lead::save(std::uint64_t value, const std::string& why) {
  const std::string problem = can_save();
  if (value > done_.save) tell(wire::Acknowledged{"save", value, problem});
  done_.save = value;
  if (!problem.empty()) return notice("save: " + problem);
  notice("save: " + (why.empty() ? std::string("control") : why));
  for (const NodeName& node : attempt_nodes_) send(node, SaveNow{value});
}

void Lead::restart(const std::string& why) {
  switch (stage_) {
    case Stage::Running:
      restart_why_ = why;
      if (!failed_) stop_all(looks_hung() ? StopHow::Crash : StopHow::Restart);
      break;
    case Stage::Waiting:
      if (!concluding_) begin_attempt(why);
      break;
    case Stage::Gathering:
    case Stage::Benching:
    case Stage::Choosing:
    case Stage::AskingPort:
    case Stage::Leaving: break;  // already on its way
  }
}

// A rank without progress for long cannot save on TERM: waiting for it only costs time.
bool Lead::looks_hung() const {
  const double limit = std::max(kHungFloorMs, kHungFactor * slowest_iteration_ms_);
  return last_beat_.phase == wire::Phase::Iteration &&
         static_cast<double>(last_beat_.progress_age_ms) > limit;
}

void Lead::take_stacks() {
  if (stacks_ || stage_ != Stage::Running) return;
  std::string time = format_rfc3339(wall_now());
  std::replace(time.begin(), time.end(), ':', '-');
  const std::string directory =
      fmt::format("{}/stacks/{}.{}", wire::generation_name(start_.generation), time, done_.stacks);
  stacks_ = PendingStacks{{attempt_nodes_.begin(), attempt_nodes_.end()}, 0, 0, directory};
  for (const NodeName& node : attempt_nodes_) send(node, TakeStacks{directory});
  loop_.after(kStacksLimit, [this, alive = alive_, directory] {
    if (*alive && stacks_ && stacks_->directory == directory) tell_stacks();
  });
}

void Lead::on_stacks(const StacksDone& done) {
  if (!stacks_ || stacks_->directory != done.directory) return;
  stacks_->ranks += done.ranks;
  if (++stacks_->answers >= stacks_->waiting.size()) tell_stacks();
}

// In a thread: the stacks are read again to group them.
void Lead::tell_stacks() {
  std::thread([this, alive = alive_, &loop = loop_, ranks = stacks_->ranks,
               directory = stacks_->directory, run = context_.run_directory] {
    wire::StacksWritten written = group_written(run + "/" + directory);
    written.directory = directory;
    written.ranks = ranks;
    loop.post([this, alive, written] {
      if (*alive) tell(written);
    });
  }).detach();
  stacks_.reset();
}

void Lead::on_signal(int signal) {
  if (signal == SIGINT && ++interrupts_ > 1) return leave_now("interrupted twice");
  save_and_leave(fmt::format("signal {} ({})", signal, ::strsignal(signal)));
}

void Lead::beat() {
  beat_timer_ = loop_.after(wire::beat_every(start_.orders.hang_floor), [this] { beat(); });
  check_silence();
  if (stage_ == Stage::Gathering) gather();
  fold_and_tell(false);
}

// Tells a beat: each beat_every(), and at once when the phase that most ranks are in changes.
void Lead::fold_and_tell(bool only_on_edge) {
  const Instant now = monotonic_now();
  const auto ms = [](Duration d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  };
  std::map<NodeName, NodeSamples> nodes;
  for (auto& [node, f] : followers_) {
    if (f.sampled_at == Instant{}) continue;
    f.samples.age_ms = ms(now - f.sampled_at);
    nodes.emplace(node, f.samples);
  }
  const bool running = stage_ == Stage::Running;
  wire::Beat folded = fold_beat(attempt_, nodes, running ? ms(now - attempt_at_) : 0);
  const bool edge = running && (!told_phase_ || *told_phase_ != folded.phase);
  if (only_on_edge && !edge) return;
  if (edge) {
    told_phase_ = folded.phase;
    tell(wire::PhaseEdge{attempt_, folded.phase, folded.iteration_max});
  }
  for (auto& [node, f] : followers_)
    for (RankSample& sample : f.samples.ranks) {
      sample.completed = 0;
      sample.losses = {};
    }
  slowest_iteration_ms_ = std::max(slowest_iteration_ms_, folded.iteration_ms.max);
  last_beat_ = folded;
  tell(std::move(folded));
}

}  // namespace stoker::agent
