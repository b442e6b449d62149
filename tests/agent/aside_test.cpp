// Where no thread can be made.
#include "worker/agent/aside.hpp"

#include <doctest/doctest.h>
#include <future>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace stoker::agent;

TEST_CASE("run_aside: work that can only be moved -> done") {
  REQUIRE(can_run_aside());
  std::promise<int> promise;
  auto answer = promise.get_future();
  run_aside([promise = std::move(promise)]() mutable { promise.set_value(7); });
  CHECK(answer.get() == 7);
}

TEST_CASE("try_thread: the limit of processes is reached -> no thread, and no end") {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{1, 1};
    ::setrlimit(RLIMIT_NPROC, &none);
    if (::geteuid() == 0 && ::setuid(54321) != 0) ::_exit(3);  // root has no limit
    bool ran = false;
    const auto work = [&ran] { ran = true; };
    const bool first = try_thread(work).has_value(), second = try_thread(work).has_value();
    ::_exit(first || second || ran ? 2 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
