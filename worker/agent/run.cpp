// The agent's start: keeper, context, then lead (claim, generation) or follower, and the loop.
#include "worker/agent/run.hpp"

#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <poll.h>
#include <random>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/os/own_files.hpp"
#include "common/printable.hpp"
#include "wire/exit_code.hpp"
#include "wire/heartbeat_page.hpp"
#include "wire/run_directory.hpp"
#include "worker/agent/aside.hpp"
#include "worker/agent/lead.hpp"
#include "worker/agent/link/follower.hpp"
#include "worker/agent/node/node_health.hpp"
#include "worker/agent/node/predecessor.hpp"
#include "worker/agent/rank/guardian.hpp"
#include "worker/agent/storage/ending.hpp"
#include "worker/agent/storage/patience.hpp"
#include "worker/agent/switch_process.hpp"

namespace stoker::agent {
namespace {

constexpr int kRefused = wire::number_of(wire::ExitCode::CheckpointRefused);  // as the ranks say it
constexpr Duration kPredecessorLimit = 90s;  // followers wait 120 s for their lead

int complain(int code, const Error& error) {
  tell_stderr("stoker-agent: " + error.message());
  return code;
}

os::Fd signal_fd() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, s);
  return os::Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool is_over(const RunContext& context) {
  const auto why = why_over(context);
  if (why) tell_stderr("stoker-agent: nothing is started: " + *why);
  return why.has_value();
}

bool is_switched_off(const RunContext& context) {
  const auto seen = read_end_switch(context.run_directory);
  if (!seen) tell_stderr("stoker-agent: " + seen.error().message());
  if (!seen || !*seen) return false;
  tell_stderr(fmt::format("stoker-agent: switch {} by {} is set: nothing is started", (*seen)->verb,
                          (*seen)->by));
  return true;
}

// Signals and the keeper's end go to `role`, a Lead or a Follower.
template <class Role>
int run_role(Loop& loop, Role& role, const KeeperLink& keeper) {
  const os::Fd signals = signal_fd();
  loop.watch(signals.get(), POLLIN, [&](short) {
    signalfd_siginfo info;
    while (::read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      role.on_signal(static_cast<int>(info.ssi_signo));
  });
  loop.watch(keeper.keeper_pidfd.get(), POLLIN, [&](short) {
    loop.forget(keeper.keeper_pidfd.get());
    role.keeper_gone();
  });
  loop.run();
  return role.exit_code();
}

int run_lead(const RunContext& context, const RunOptions& options, Loop& loop,
             const Watchmen& watchmen, const KeeperLink& keeper) {
  SwitchProcess::of_agent().start();
  std::vector<std::string> closed;
  if (const auto safe = wire::close_run_directory(context.run_directory, closed); !safe)
    return complain(os::is_refusal(safe.error()) ? kRefused : 1, safe.error());
  const auto claimed =
      once_there_is_room(context.run_directory, [&] { return claim_start(context); });
  if (!claimed) return complain(1, claimed.error());
  if (!claimed->ours)
    return complain(wire::kAgentClaimed,
                    Error{"this start is taken: " + claimed->holder,
                          wire::claim_name(context.token, context.task, context.restart),
                          "nothing was started here"});
  if (is_switched_off(context)) return 0;
  if (const auto late = why_delayed(context))
    return complain(wire::kAgentClaimed,
                    Error{*late, context.run_directory, "nothing was started here"});
  if (is_over(context)) return 0;
  const auto predecessors = await_predecessors(context, kPredecessorLimit);
  if (predecessors != Predecessors::Gone)
    return predecessors == Predecessors::Heard ? wire::kAgentClaimed : 0;
  if (is_over(context)) return 0;  // who was waited for may have ended the run
  Refused refused;
  const auto orders =
      read_orders(context, options, refused);  // a rollback may have come while it waited
  if (!orders) return complain(wire::kAgentUsage, orders.error());
  const auto before = read_control(context.run_directory);
  const auto point = resume_point(context, *orders);
  if (!point) return complain(kRefused, point.error());
  auto minted = mint_generation(context, *orders, *point);
  if (!minted) return complain(1, minted.error());
  Lead lead({loop, context, watchmen}, std::move(*minted),
            before ? *before : std::optional<wire::Control>{});
  if (const auto begun = lead.begin(); !begun) return complain(1, begun.error());
  for (const std::string& file : refused) lead.notice(file);
  return run_role(loop, lead, keeper);
}

int run_as_agent(const RunOptions& options, const std::string& mark, const KeeperLink& keeper) {
  const auto context = read_context(options, os::current_environment());
  if (!context) return complain(wire::kAgentUsage, context.error());
  const auto self = os::identify(::getpid());
  if (!self) return complain(1, self.error());
  wire::keep_writers_out(context->run_directory);
  if (!can_run_aside())
    return complain(1, Error{"no thread can be made: a limit of processes or of memory is reached",
                             context->node.text, "see `ulimit -u`; nothing was started here"});
  run_aside_soon([] { wire::sweep_heartbeat_pages(); });  // strangers can put names there, too
  const Watchmen watchmen{*self, keeper.keeper, mark};
  Loop loop;
  if (context->is_lead()) return run_lead(*context, options, loop, watchmen, keeper);
  if (is_over(*context)) return 0;  // its lead starts nothing either
  Follower follower(loop, *context, watchmen);
  follower.begin();
  return run_role(loop, follower, keeper);
}

}  // namespace

int run_agent(const RunOptions& options) {
  std::random_device random;
  const std::string mark = fmt::format("{:08x}{:08x}", random(), random());
  KeeperLink keeper;
  int keeper_exit = 1;
  if (become_keeper(mark, keeper, keeper_exit)) return keeper_exit;
  const int code = run_as_agent(options, mark, keeper);
  std::fflush(stderr);
  ::_exit(code);  // threads may hang in a network file system: no destructors after this
}

}  // namespace stoker::agent
