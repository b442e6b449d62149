#include "common/os/process.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"

extern char** environ;

namespace stoker::os {
namespace {

int pidfd_open(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u));
}

// argv[0] resolved like execvp, but before the fork and in the child's PATH.
Result<std::string> resolve_command(const SpawnOptions& options) {
  const std::string& name = options.argv.front();
  if (name.find('/') != std::string::npos) return name;
  const auto path = options.environment.find("PATH");
  std::string_view folders = path == options.environment.end() ? "/usr/local/bin:/usr/bin:/bin"
                                                               : std::string_view(path->second);
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
    std::string candidate = (folder.empty() ? "." : std::string(folder)) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return fail("command not found in PATH", name, "give its full path or install it");
}

struct ChildPlan {  // everything the child needs, allocated before fork
  std::string file;
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::vector<std::string> env_storage;
};

Result<ChildPlan> make_plan(const SpawnOptions& options) {
  if (options.argv.empty() || options.argv.front().empty()) return fail("empty command");
  ChildPlan plan;
  STOKER_TRY(file, resolve_command(options));
  plan.file = file;
  for (const auto& a : options.argv) plan.argv.push_back(const_cast<char*>(a.c_str()));
  plan.argv.push_back(nullptr);
  plan.env_storage.reserve(options.environment.size());
  for (const auto& [k, v] : options.environment) plan.env_storage.push_back(k + "=" + v);
  for (auto& e : plan.env_storage) plan.envp.push_back(e.data());
  plan.envp.push_back(nullptr);
  return plan;
}

bool place_stream(int from, int to) {
  if (from == to) return ::fcntl(to, F_SETFD, 0) == 0;
  return ::dup2(from, to) == to;
}

// Between fork and exec: only async-signal-safe calls.
[[noreturn]] void run_child(const SpawnOptions& o, const ChildPlan& plan, int error_fd,
                            pid_t parent) {
  const auto give_up = [error_fd] {
    const int error = errno;
    [[maybe_unused]] const ssize_t n = ::write(error_fd, &error, sizeof error);
    ::_exit(127);
  };
  if (o.new_session) ::setsid();
  if (o.parent_death_signal != 0) {
    ::prctl(PR_SET_PDEATHSIG, o.parent_death_signal);
    if (::getppid() != parent) ::_exit(127);
  }
  restore_umask();
  if (o.subreaper) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) ::sigaction(s, &plain, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int streams[3] = {o.stdin_fd, o.stdout_fd, o.stderr_fd};
  int sources[3];
  for (int i = 0; i < 3; ++i) {
    const int from = streams[i] < 0 ? null_fd : streams[i];
    sources[i] = from < 3 && from != i ? ::fcntl(from, F_DUPFD_CLOEXEC, 3) : from;
  }
  for (int i = 0; i < 3; ++i)
    if (!place_stream(sources[i], i)) give_up();
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // Asio's sockets are made without the flag
  for (const int fd : o.keep_fds) ::fcntl(fd, F_SETFD, 0);
  if (!o.working_directory.empty() && ::chdir(o.working_directory.c_str()) != 0) give_up();
  ::execve(plan.file.c_str(), plan.argv.data(), plan.envp.data());
  give_up();
  ::_exit(127);
}

Result<std::string> read_proc(pid_t pid, const char* file) {
  return read_file(fmt::format("/proc/{}/{}", pid, file), 1u << 16);
}

struct Stat {
  char state = '?';
  pid_t parent = 0;
  std::uint64_t started = 0;
};
std::optional<Stat> read_stat(pid_t pid) {
  const auto text = read_proc(pid, "stat");
  if (!text) return std::nullopt;
  const auto paren = text->rfind(')');  // the name may hold anything, also ')'
  if (paren == std::string::npos) return std::nullopt;
  Stat stat;
  unsigned long long started = 0;
  if (std::sscanf(text->c_str() + paren + 1,
                  " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &stat.state, &stat.parent, &started) != 3)
    return std::nullopt;
  stat.started = started;
  return stat;
}

}  // namespace

std::string ExitStatus::text() const {
  if (signal == 0) return fmt::format("exit {}", code);
  const char* name = ::strsignal(signal);
  return fmt::format("signal {} ({}{})", signal, name != nullptr ? name : "unknown",
                     core ? ", core dumped" : "");
}

Result<Child> spawn(const SpawnOptions& options) {
  STOKER_TRY(plan, make_plan(options));
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0)
    return fail(errno_error(errno, "cannot create a pipe", ""));
  Fd read_end(pipe_fds[0]);
  Fd write_end(pipe_fds[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail(errno_error(errno, "cannot fork", options.argv.front()));
  if (pid == 0) run_child(options, plan, write_end.get(), parent);
  write_end.reset();
  int error = 0;
  ssize_t n = 0;
  do n = ::read(read_end.get(), &error, sizeof error);
  while (n < 0 && errno == EINTR);
  if (n > 0) {
    ::waitpid(pid, nullptr, 0);
    return fail(errno_error(error, "cannot start", options.argv.front()));
  }
  Child child;
  child.pidfd = Fd(pidfd_open(pid));
  if (!child.pidfd) return fail(errno_error(errno, "cannot open a pidfd", options.argv.front()));
  const auto stat = read_stat(pid);
  child.identity = {pid, stat ? stat->started : 0};
  return child;
}

std::optional<Fd> open_process(const ProcessIdentity& identity) {
  Fd fd(pidfd_open(identity.pid));
  if (!fd) return std::nullopt;
  const auto stat = read_stat(identity.pid);  // after the open: the pid cannot be reused unseen now
  if (!stat || stat->started != identity.started) return std::nullopt;
  return fd;
}

Result<ProcessIdentity> identify(pid_t pid) {
  const auto stat = read_stat(pid);
  if (!stat) return fail("no such process", std::to_string(pid));
  return ProcessIdentity{pid, stat->started};
}

bool is_alive(const ProcessIdentity& identity) {
  const auto stat = read_stat(identity.pid);
  return stat && stat->started == identity.started && stat->state != 'Z' && stat->state != 'X';
}

bool has_exited(const Fd& pidfd) {
  pollfd p{pidfd.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

Status send_signal(const Fd& pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0u) != 0)
    return fail(errno_error(errno, fmt::format("cannot send signal {}", signal), ""));
  return ok();
}

Result<std::optional<ExitStatus>> try_wait(const Child& child) {
  int raw = 0;
  const pid_t r = ::waitpid(child.identity.pid, &raw, WNOHANG);
  if (r < 0) return fail(errno_error(errno, "cannot wait", std::to_string(child.identity.pid)));
  if (r == 0) return std::optional<ExitStatus>{};
  ExitStatus status;
  if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
  if (WIFSIGNALED(raw)) {
    status.signal = WTERMSIG(raw);
    status.core = WCOREDUMP(raw);
  }
  return std::optional<ExitStatus>(status);
}

std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<std::pair<pid_t, pid_t>> parents;  // (parent, child)
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    const pid_t p = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (p <= 0) continue;
    if (const auto stat = read_stat(p)) parents.emplace_back(stat->parent, p);
  }
  std::vector<pid_t> found{pid};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const auto& [parent, child] : parents)
      if (parent == found[i] && std::find(found.begin(), found.end(), child) == found.end())
        found.push_back(child);
  found.erase(found.begin());
  return found;
}

std::map<std::string, std::string> current_environment() {
  std::map<std::string, std::string> out;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view text(*e);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos && equals > 0)
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

}  // namespace stoker::os
