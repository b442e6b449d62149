// The stop ladder, saves and stacks of one node.
#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <map>

#include "common/os/files.hpp"
#include "worker/agent/aside.hpp"
#include "worker/agent/gpu/bench_command.hpp"
#include "worker/agent/node/bench.hpp"
#include "worker/agent/node/node.hpp"
#include "worker/agent/rank/process_tree.hpp"
#include "worker/agent/rank/stacks.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kCrashGrace =
    100ms;  // for peers' own last output; nothing can be saved any more
constexpr Duration kLeaveNowGrace = 5s;

int signal_number(const std::string& name) {
  static const std::map<std::string, int> known{
      {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"INT", SIGINT}, {"TERM", SIGTERM}};
  const auto found = known.find(name.starts_with("SIG") ? name.substr(3) : name);
  return found == known.end() ? 0 : found->second;
}

}  // namespace

bool Node::send_save_signal(Member& member) {
  const int number = signal_number(start_.orders.save_signal);
  if (number == 0 || !member.process || member.gone) return false;
  bool sent = false;
  for (const pid_t pid : os::descendants_of(member.process->guardian()))
    if (catches_signal(pid, number) && ::kill(pid, number) == 0) sent = true;
  return sent;
}

void Node::save(const SaveNow&) {
  for (const auto& member : ranks_) {
    if (member->gone) continue;
    if (auto* page = member->slot->page()) page->request_save();
    if (!start_.orders.save_signal.empty() && !member->slot->speaks_page() &&
        !send_save_signal(*member))
      notice(fmt::format("save: rank {} does not catch {}; it was not sent",
                         member->slot->rank.value, start_.orders.save_signal));
  }
}

void Node::ask_to_leave(wire::Leave how) {
  for (const auto& member : ranks_) {
    if (member->gone) continue;
    if (auto* page = member->slot->page()) page->request_leave(how);
    if (member->slot->speaks_page()) continue;
    const bool asked = how == wire::Leave::SaveAndLeave &&
                       (!start_.orders.kill_switch.empty() || send_save_signal(*member));
    if (!asked && member->process) member->process->signal_group(SIGTERM);
  }
}

void Node::terminate_all() {
  for (const auto& member : ranks_)
    if (!member->gone && member->process) member->process->signal_group(SIGTERM);
}

void Node::kill_ranks() {
  kill_tools();
  for (const auto& member : ranks_)
    if (!member->clear && member->process) member->process->kill();
}

void Node::kill_all() {
  leaving_ = true;
  drop_waiting();
  kill_ranks();
  for (const auto& standby : standbys_) standby->kill();
}

void Node::stop(const StopRanks& command) {
  if (ranks_.empty()) return;
  wiring_.loop.cancel(term_timer_);
  wiring_.loop.cancel(kill_timer_);
  Duration kill_after{};
  switch (command.how) {
    case StopHow::Crash: kill_after = kCrashGrace; break;
    case StopHow::Restart:
      terminate_all();
      kill_after = start_.orders.stop_grace;
      break;
    case StopHow::SaveAndLeave: {
      ask_to_leave(wire::Leave::SaveAndLeave);
      const Duration save_limit =
          std::max(start_.orders.exit_before_limit, start_.orders.stop_grace);
      term_timer_ = wiring_.loop.after(save_limit, [this] { terminate_all(); });
      kill_after = save_limit + start_.orders.stop_grace;
      break;
    }
    case StopHow::LeaveNow:
      ask_to_leave(wire::Leave::LeaveNow);
      kill_after = std::min(kLeaveNowGrace, start_.orders.stop_grace);
      break;
  }
  leaving_ = leaving_ || command.how != StopHow::Crash;
  drop_waiting();
  kill_timer_ = wiring_.loop.after(kill_after, [this] {
    leaving_ = true;
    kill_ranks();
  });
}

// Small enough for seventeen nodes at once on one file system.
void Node::bench(const BenchNode& command) {
  constexpr std::size_t kMegabytes = 64;
  run_aside([this, command, directory = wiring_.context.run_directory, alive = alive_,
             &loop = wiring_.loop] {
    Benched measured;
    const std::string disk = command.disk ? directory : "";
    for (const BenchFigure& figure : bench_node(disk, kMegabytes))
      if (figure.value > 0) measured.figures[figure.name] = figure.value;
    bench_gpus_aside(command.burn, measured);
    loop.post([this, alive, measured] {
      if (*alive) wiring_.report(measured);
    });
  });
}

void Node::take_stacks(const TakeStacks& command) {
  std::vector<StackTarget> targets;
  for (const auto& member : ranks_)
    if (member->process && !member->gone)
      targets.push_back({fmt::format("{}.{}", wiring_.context.node.text, member->slot->rank.value),
                         os::descendants_of(member->process->guardian()),
                         rank_log(member->slot->rank)});
  const std::string folder = wiring_.context.run_directory + "/" + command.directory;
  run_aside([this, targets, folder, command, alive = alive_, &loop = wiring_.loop] {
    const auto written = write_stacks(targets, folder);
    loop.post([this, alive, written, command] {
      if (*alive) wiring_.report(StacksDone{command.directory, written});
    });
  });
}

}  // namespace stoker::agent
