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

Status serve_folder(const SchedulerProcessOptions& options) {
  STOKER_TRY_STATUS(os::make_directories(options.folder, 0700));
  STOKER_TRY(lock, lock_folder(options.folder));
  if (!lock) return ok();
  STOKER_TRY(store, Store::open(options.folder));
  STOKER_TRY(cluster, store->load());
  const std::string id = cluster.id;
  Controller controller(options.folder, *store, std::move(cluster),
                        NodeRunner(options.folder, id, options.node_command));
  STOKER_TRY(server, SocketServer::listen(options.folder));
  Instant last_use = monotonic_now();
  while (!controller.shutdown_asked() || controller.has_live_tasks()) {
    controller.advance(wall_now());
    const Duration wait = controller.wait(wall_now());
    const bool traffic = server.serve(std::min(wait, options.idle_exit), controller.pidfds(),
                                      [&controller](const std::string& l, std::uint32_t u) {
                                        return answer_line(controller, l, u);
                                      });
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (traffic || controller.has_live_tasks()) last_use = monotonic_now();
    if (monotonic_now() - last_use > options.idle_exit) break;
  }
  controller.advance(wall_now());
  return ok();
}

}  // namespace

int run_scheduler_process(const SchedulerProcessOptions& options) {
  if (options.detach) {
    const pid_t pid = ::fork();
    if (pid < 0) {
      std::perror("stokerd local-scheduler: fork");
      return 1;
    }
    if (pid > 0) return 0;
    ::setsid();
  }
  ::close_range(3, ~0U, 0);  // nothing of the caller stays open here
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  const Status done = serve_folder(options);
  if (done) return 0;
  std::fprintf(stderr, "stokerd local-scheduler: %s\n", done.error().message().c_str());
  return 1;
}

}  // namespace stoker::embedded
