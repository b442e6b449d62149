#include "embedded/node_runner.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "common/os/files.hpp"
#include "common/os/machine_short.hpp"
#include "common/printable.hpp"
#include "embedded/sweep.hpp"
#include "wire/environment.hpp"

namespace stoker::embedded {
namespace {

constexpr int kMaxStarts = 3;
constexpr Duration kSweepLimit = 2s;

std::string seconds_text(WallTime t) {
  return std::to_string(t.time_since_epoch() / std::chrono::seconds(1));
}

std::string addresses_of(const std::vector<NodeRun>& runs) {
  std::string out;
  for (const NodeRun& run : runs) {
    if (!out.empty()) out += ",";
    out += run.node.text + "=127.0.0.1";
  }
  return out;
}

}  // namespace

std::string NodeRunner::mark_of(const Task& task, const NodeName& node) const {
  return fmt::format("{}/{}.r{}/{}", cluster_id_, task.id.text(), task.restart, node.text);
}

NodeFolder NodeRunner::folder_of(const Task& task, const NodeName& node) const {
  return NodeFolder(folder_, task.id, task.restart, node);
}

NodeSpec NodeRunner::make_spec(const Job& job, const Task& task, std::size_t index) const {
  const SubmitJob& request = job.request;
  const NodeName& node = task.runs[index].node;
  std::vector<NodeName> nodes;
  for (const NodeRun& run : task.runs) nodes.push_back(run.node);
  NodeSpec spec;
  spec.mark = mark_of(task, node);
  spec.argv = request.argv;
  spec.environment = request.environment;
  spec.working_directory = request.working_directory;
  spec.ends = task.ends;
  spec.signal_before = request.signal_before;
  spec.signal = request.signal;
  spec.kill_wait = request.kill_wait;
  auto& e = spec.environment;
  e["SLURM_JOB_ID"] = e["SLURM_JOBID"] = std::to_string(task.raw_id);
  e["SLURM_ARRAY_JOB_ID"] = std::to_string(task.id.job);
  e["SLURM_ARRAY_TASK_ID"] = std::to_string(task.id.task);
  e["SLURM_ARRAY_TASK_MIN"] = "1";
  e["SLURM_ARRAY_TASK_MAX"] = std::to_string(request.array_tasks);
  e["SLURM_ARRAY_TASK_COUNT"] = std::to_string(request.array_tasks);
  e["SLURM_RESTART_COUNT"] = std::to_string(task.restart);
  e["SLURM_JOB_NODELIST"] = e["SLURM_NODELIST"] = compress_hostlist(nodes);
  e["SLURM_NNODES"] = e["SLURM_JOB_NUM_NODES"] = std::to_string(nodes.size());
  e["SLURM_NODEID"] = std::to_string(index);
  e["SLURMD_NODENAME"] = node.text;
  e["SLURM_JOB_NAME"] = request.name;
  e["SLURM_SUBMIT_DIR"] = request.working_directory;
  e["SLURM_JOB_START_TIME"] = seconds_text(task.started);
  e["SLURM_JOB_END_TIME"] = seconds_text(task.ends);
  e[wire::env::kJobEnd] = std::to_string(task.ends.time_since_epoch().count());
  e[wire::env::kToken] = request.token.text;
  e[wire::env::kNodeAddresses] = addresses_of(task.runs);
  return spec;
}

NodeRunner::Known& NodeRunner::known(const Task& task, std::size_t index) {
  // Starts of the task before this one are over: their descriptors go.
  std::erase_if(known_, [&task](const auto& entry) {
    return std::get<0>(entry.first) == task.id && std::get<1>(entry.first) < task.restart;
  });
  return known_[Key{task.id, task.restart, task.runs[index].node}];
}

Status NodeRunner::start(const Job& job, const Task& task, std::size_t index) {
  Known& k = known(task, index);
  const NodeFolder folder = folder_of(task, task.runs[index].node);
  STOKER_TRY_STATUS(folder.write_spec(make_spec(job, task, index)));
  const os::Fd log(
      ::open(folder.output().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return fail(errno_error(errno, "cannot create", folder.output()));
  os::SpawnOptions options;
  options.argv = node_command_;
  options.argv.insert(options.argv.end(), {"--path", folder.path()});
  options.environment = os::current_environment();
  options.environment[wire::env::kLocalMark] = mark_of(task, task.runs[index].node);
  options.stdout_fd = options.stderr_fd = log.get();
  auto spawned = os::spawn(options);
  // Tried at each look; a start that the machine has no process for does not count.
  if (!spawned && os::is_machine_short(spawned.error())) return ok();
  ++k.starts;
  STOKER_TRY(child, std::move(spawned));
  k.identity = child.identity;
  k.pidfd = std::move(child.pidfd);
  k.asked = false;
  return ok();
}

// No process has claimed the folder: the node process is on its way, died before its first act, or
// was never started (the scheduler process died between its decision and the start).
NodeRunner::Look NodeRunner::look_unclaimed(const Job& job, const Task& task, std::size_t index,
                                            Known& k) {
  const auto ended = [](int signal, const char* why, std::string detail) {
    return Look{Seen::Ended, {signal == 0 ? 1 : 0, signal, why, std::move(detail), 0}, false};
  };
  if (k.identity.pid != 0 && os::is_alive(k.identity)) return {};
  const NodeFolder folder = folder_of(task, task.runs[index].node);
  if (const auto alive = folder.read_alive(); !alive || *alive)
    return {};  // it claimed just now: the next look sees it
  if (task.cause != EndCause::None) {
    const auto mine = folder.claim({0, 0, os::boot_id()});  // no process may start here any more
    if (mine && *mine) return ended(SIGTERM, "term", "ended before its start");
    return {};
  }
  if (k.starts >= kMaxStarts) return ended(0, "launch", "the node process does not start");
  if (const Status started = start(job, task, index); !started)
    tell_stderr(task.id.text() + ": " + started.error().message());
  return {};
}

NodeRunner::Look NodeRunner::look(const Job& job, const Task& task, std::size_t index) {
  Known& k = known(task, index);
  const NodeName& node = task.runs[index].node;
  const NodeFolder folder = folder_of(task, node);
  if (k.claimed && k.pidfd && !os::has_exited(k.pidfd)) return {Seen::Alive, {}, false};
  const auto alive = folder.read_alive();
  if (!alive || !*alive) return look_unclaimed(job, task, index, k);
  const os::ProcessIdentity identity = (*alive)->identity();
  const bool this_boot = (*alive)->boot_id == os::boot_id();
  k.claimed = true;
  if (this_boot && identity.pid > 0) {
    if (auto fd = os::open_process(identity); fd && os::is_alive(identity)) {
      if (k.identity != identity) k.asked = false;
      k.identity = identity;
      k.pidfd = std::move(*fd);
      return {Seen::Alive, {}, false};
    }
  }
  k.pidfd.reset();
  Look look{Seen::Ended, {}, false};
  if (const auto exit = folder.read_exit(); exit && *exit) {
    look.exit = **exit;
    return look;
  }
  look.host_restarted = !this_boot;
  look.exit = {0, identity.pid == 0 ? SIGTERM : SIGKILL, "lost", "the node process was killed", 0};
  if (this_boot) look.exit.unkillable = kill_all(task, index);
  return look;
}

void NodeRunner::ask_to_leave(const Task& task, std::size_t index) {
  Known& k = known(task, index);
  if (!k.pidfd || k.asked) return;
  k.asked = true;
  (void)os::send_signal(k.pidfd, SIGTERM);
}

std::uint32_t NodeRunner::kill_all(const Task& task, std::size_t index) {
  Known& k = known(task, index);
  const bool root = k.identity.pid != 0 && os::is_alive(k.identity);
  return sweep({mark_of(task, task.runs[index].node), root ? k.identity.pid : 0, root},
               kSweepLimit);
}

void NodeRunner::forget(const Task& task) {
  std::erase_if(known_, [&task](const auto& k) { return std::get<0>(k.first) == task.id; });
}

std::vector<int> NodeRunner::pidfds() const {
  std::vector<int> out;
  for (const auto& [key, k] : known_)
    if (k.pidfd && !os::has_exited(k.pidfd)) out.push_back(k.pidfd.get());
  return out;
}

}  // namespace stoker::embedded
