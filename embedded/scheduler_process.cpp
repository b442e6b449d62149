#include "embedded/scheduler_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/printable.hpp"
#include "embedded/controller.hpp"
#include "embedded/socket.hpp"

namespace stoker::embedded {
namespace {

std::string answer_line(Controller& controller, const std::string& line, std::uint32_t uid) {
  Answer answer;
  const auto request = from_json_text<Request>(line, "request", {kMaxRequestBytes, 32});
  if (request)
    answer = controller.handle(*request, uid, wall_now());
  else
    answer.error = request.error().message();
  return to_json_text(answer) + "\n";
}

// Empty: another process serves this folder.
Result<os::Fd> lock_folder(const std::string& folder) {
  const std::string path = folder + "/scheduler.lock";
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return os::Fd();
    return fail(errno_error(errno, "cannot lock", path));
  }
  return fd;
}

// Informs the starter that the folder is served (by us, or by another process already).
void tell_ready(const os::Fd& ready) {
  [[maybe_unused]] const ssize_t n = ready ? ::write(ready.get(), "k", 1) : 0;
}

void serve(Controller& controller, SocketServer& server, Duration idle_exit) {
  Instant last_use = monotonic_now();
  const auto handle = [&controller](const std::string& line, std::uint32_t uid) {
    return answer_line(controller, line, uid);
  };
  while (true) {
    controller.advance(wall_now());
    const bool live = controller.has_live_tasks();
    if (controller.shutdown_asked() && !live) return;
    const Duration wait = std::min(controller.wait(wall_now()), idle_exit);
    const bool traffic = server.serve(wait, controller.pidfds(), handle);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (traffic || live) last_use = monotonic_now();
    if (monotonic_now() - last_use > idle_exit) return;
  }
}

// `ready` stays open on failure: a waiting process must not look before the reason is in the log.
Status serve_folder(const SchedulerProcessOptions& options, os::Fd& ready) {
  STOKER_TRY_STATUS(make_folder(options.folder));
  STOKER_TRY(lock, lock_folder(options.folder));
  if (!lock) {
    tell_ready(ready);
    return ok();
  }
  STOKER_TRY(store, Store::open(options.folder));
  STOKER_TRY(cluster, store->load());
  const std::string id = cluster.id;
  Controller controller(options.folder, *store, std::move(cluster),
                        NodeRunner(options.folder, id, options.node_command));
  STOKER_TRY(server, SocketServer::listen(options.folder));
  tell_ready(ready);
  ready.reset();
  serve(controller, server, options.idle_exit);
  return ok();
}

// Forks; the parent ends as soon as the child serves (0) or cannot (1). The child gets the pipe.
Result<os::Fd> detach() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(errno_error(errno, "cannot create a pipe", ""));
  os::Fd read_end(ends[0]);
  os::Fd write_end(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail(errno_error(errno, "cannot fork", ""));
  if (pid == 0) {
    ::setsid();
    return write_end;
  }
  write_end.reset();
  char byte = 0;
  ssize_t n = 0;
  do n = ::read(read_end.get(), &byte, 1);
  while (n < 0 && errno == EINTR);
  ::_exit(n == 1 ? 0 : 1);
}

}  // namespace

int run_scheduler_process(const SchedulerProcessOptions& options) {
  ::close_range(3, ~0U, 0);  // nothing of the caller stays open here
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  Result<os::Fd> ready = os::Fd();
  if (options.detach) ready = detach();
  const Status done = ready ? serve_folder(options, *ready) : fail(ready.error());
  if (done) return 0;
  tell_stderr("stokerd local-scheduler: " + done.error().message());
  return 1;
}

}  // namespace stoker::embedded
