#include "embedded/local_scheduler.hpp"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "embedded/socket.hpp"
#include "wire/environment.hpp"

namespace stoker::embedded {
namespace {

constexpr std::uint64_t kMaxLogBytes = 1u << 20;
// Of the submitter's environment, what a program needs to run at all. The rest is the run's own
// explicit environment.
constexpr const char* kKept[] = {"PATH",
                                 "HOME",
                                 "USER",
                                 "LOGNAME",
                                 "SHELL",
                                 "LANG",
                                 "LC_ALL",
                                 "TZ",
                                 "TMPDIR",
                                 "LD_LIBRARY_PATH",
                                 "PYTHONPATH",
                                 "XDG_RUNTIME_DIR",
                                 "CUDA_VISIBLE_DEVICES",
                                 "OMP_NUM_THREADS"};

// The scheduler process's own messages; one older file is kept.
os::Fd open_log(const std::string& folder) {
  const std::string path = folder + "/scheduler.log";
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > kMaxLogBytes)
    ::rename(path.c_str(), (path + ".1").c_str());
  return os::Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
}

std::string last_line(const std::string& path) {
  const auto text = os::read_file(path, 4u << 20);
  if (!text || text->empty()) return "";
  const auto end = text->find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const auto begin = text->rfind('\n', end);
  return text->substr(begin == std::string::npos ? 0 : begin + 1,
                      end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

Status start_process(const LocalOptions& options) {
  STOKER_TRY_STATUS(make_folder(options.folder));
  const os::Fd log = open_log(options.folder);
  if (!log) return fail(errno_error(errno, "cannot write", options.folder + "/scheduler.log"));
  os::SpawnOptions spawn;
  spawn.argv = options.scheduler_command;
  spawn.argv.insert(spawn.argv.end(), {"--folder", options.folder});
  for (const auto& [name, value] : os::current_environment())  // it belongs to no job
    if (name.rfind("SLURM", 0) != 0 && name != wire::env::kLocalMark)
      spawn.environment[name] = value;
  spawn.working_directory = "/";
  spawn.stdout_fd = spawn.stderr_fd = log.get();
  STOKER_TRY(child, os::spawn(spawn));
  const Instant end = monotonic_now() + options.deadline;
  while (monotonic_now() < end) {  // it detaches: this child ends at once
    STOKER_TRY(status, os::try_wait(child));
    if (status && status->ok()) return ok();
    if (status)
      return fail(
          "the local scheduler does not start: " + last_line(options.folder + "/scheduler.log"),
          options.folder);
    pollfd p{child.pidfd.get(), POLLIN, 0};
    ::poll(&p, 1, 100);
  }
  return fail("the local scheduler does not start in time", options.folder);
}

Result<os::Fd> connect_or_start(const LocalOptions& options, bool start) {
  auto socket = connect_socket(options.folder);
  if (socket || !start) return socket;
  const Instant end = monotonic_now() + options.deadline;
  Instant next_start = monotonic_now();
  while (monotonic_now() < end) {
    // Again every second: the one that we met may just have been leaving.
    if (monotonic_now() >= next_start) {
      STOKER_TRY_STATUS(start_process(options));
      next_start = monotonic_now() + 1s;
    }
    socket = connect_socket(options.folder);
    if (socket) return socket;
    ::poll(nullptr, 0, 5);
  }
  return fail(socket.error().what, options.folder,
              "see scheduler.log there: " + last_line(options.folder + "/scheduler.log"));
}

template <class T>
core::PortError port_error(const core::PortResult<T>& result) {
  return std::get<core::PortError>(result);
}

}  // namespace

LocalOptions local_options(const std::string& state_directory, const std::string& program) {
  LocalOptions options;
  options.folder = state_directory + "/local";
  options.scheduler_command = {program, "local-scheduler"};
  if (const char* nodes = ::getenv("STOKER_LOCAL_NODES"); nodes != nullptr) {
    const std::string_view text(nodes);
    std::uint32_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error == std::errc{} && end == text.data() + text.size() && count <= kMaxClusterNodes)
      options.cluster_nodes = count;
  }
  if (const char* wait = ::getenv("STOKER_LOCAL_KILL_WAIT"); wait != nullptr)
    if (const auto duration = parse_duration(wait)) options.kill_wait = *duration;
  return options;
}

core::PortResult<Answer> ask(const LocalOptions& options, const Request& request, bool start) {
  // A process that is killed while it is asked is started and asked again, once: every request but
  // a requeue may be repeated (a submission has its token).
  const int attempts = std::holds_alternative<RequeueJob>(request) ? 1 : 2;
  Exchange result;
  bool sent = false;  // by any attempt
  for (int i = 0; i < attempts && (i == 0 || result.left); ++i) {
    const auto socket = connect_or_start(options, start);
    if (!socket)
      return core::PortError{socket.error(),
                             sent ? core::Certainty::Unknown : core::Certainty::Definite};
    result = exchange(*socket, to_json_text(request) + "\n", kMaxAnswerBytes, options.deadline);
    sent = sent || result.sent;
  }
  if (!result.answer) {
    Error error = result.answer.error();
    error.object = options.folder;
    return core::PortError{error, sent ? core::Certainty::Unknown : core::Certainty::Definite};
  }
  auto answer = from_json_text<Answer>(*result.answer, options.folder, {kMaxAnswerBytes, 32});
  if (!answer) return core::PortError{answer.error(), core::Certainty::Unknown};
  if (!answer->good)
    return core::PortError{{answer->error, options.folder, answer->hint},
                           core::Certainty::Definite};
  return std::move(*answer);
}

SubmitJob make_submission(const core::SubmitRequest& request, const LocalOptions& options) {
  const core::Submit& submit = request.submit;
  const core::RunPolicy& policy = request.policy;
  SubmitJob job;
  job.token = submit.token;
  job.name = policy.run.text;
  job.array_tasks = submit.array_tasks;
  job.nodes = submit.nodes;
  job.time_limit = submit.time_limit;
  job.signal_before = policy.train.exit_before_limit;
  job.kill_wait = options.kill_wait;
  job.no_kill = submit.hold_for_spares;
  job.background = request.follower;
  job.dependency = submit.dependency;
  job.begin = submit.begin;
  job.exclude = submit.exclude;
  job.working_directory = policy.directory;
  job.cluster_nodes = options.cluster_nodes;
  job.argv = request.agent_command;
  if (!policy.train.setup.empty()) {
    std::string setup = policy.train.setup;
    if (setup.front() != '/') setup = policy.config_directory + "/" + setup;
    // The path and the agent's arguments are parameters of the script, never part of it.
    const std::vector<std::string> shell{"/bin/bash", "-c", R"(. "$0" && exec "$@")", setup};
    job.argv.insert(job.argv.begin(), shell.begin(), shell.end());
  }
  const auto here = os::current_environment();
  for (const char* name : kKept)
    if (const auto it = here.find(name); it != here.end()) job.environment.insert(*it);
  for (const auto& [name, value] : request.environment) job.environment[name] = value;
  return job;
}

core::PortResult<JobId> LocalScheduler::submit(const core::SubmitRequest& request) {
  const auto result = ask(options_, make_submission(request, options_));
  if (const auto* answer = std::get_if<Answer>(&result)) {
    if (answer->job) return *answer->job;
    return core::PortError{{"the local scheduler answered without a job", options_.folder, ""},
                           core::Certainty::Unknown};
  }
  return port_error(result);
}

core::PortResult<std::monostate> LocalScheduler::cancel(const core::Cancel& cancel) {
  JobId job = cancel.job;
  if (cancel.whole_array) job.task = 0;
  const auto result = ask(options_, CancelJob{cancel.token, job, cancel.pending_only, true});
  if (std::holds_alternative<Answer>(result)) return std::monostate{};
  return port_error(result);
}

core::PortResult<std::monostate> LocalScheduler::set_exclusions(const core::SetExclusions& change) {
  const auto result = ask(options_, ExcludeNodes{change.token, change.job, change.nodes});
  if (std::holds_alternative<Answer>(result)) return std::monostate{};
  return port_error(result);
}

core::PortResult<std::optional<JobId>> LocalScheduler::look_up(const Token& token) {
  const auto result = ask(options_, FindToken{token});
  if (const auto* answer = std::get_if<Answer>(&result)) return answer->job;
  return port_error(result);
}

Result<core::SchedulerView> LocalScheduler::observe(const std::vector<RunName>& runs) {
  Observe question;
  for (const RunName& run : runs) question.names.push_back(run.text);
  auto result = ask(options_, question);
  if (auto* answer = std::get_if<Answer>(&result))
    return core::SchedulerView{std::move(answer->jobs), std::move(answer->nodes)};
  return fail(port_error(result).error);
}

Result<std::set<NodeName>> LocalScheduler::find_nodes(const std::vector<NodeName>& /*asked*/) {
  auto result = ask(options_, Observe{{""}}, false);  // no job has that name: the nodes alone
  const auto* answer = std::get_if<Answer>(&result);
  if (answer == nullptr) return fail(port_error(result).error);
  std::set<NodeName> names;
  for (const core::NodeSeen& node : answer->nodes) names.insert(node.node);
  if (names.empty()) return fail("no job has made the local cluster yet", options_.folder);
  return names;
}

}  // namespace stoker::embedded
