// Processes: identities, deadlines with the whole process group, bounded output, no shell.
#include "common/os/process.hpp"

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using os::run_command;

namespace {

os::SpawnOptions command(std::vector<std::string> argv) {
  os::SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  return options;
}

}  // namespace

TEST_CASE("spawn: a descriptor without the flag, as libraries make them -> not inherited") {
  const int leaked = ::open("/dev/null", O_RDONLY);
  REQUIRE(leaked > 2);
  const std::string path = "/proc/self/fd/" + std::to_string(leaked);
  CHECK(run_command(command({"sh", "-c", "test ! -e " + path}), 60s)->status.code == 0);
  ::close(leaked);
}

TEST_CASE("process: hostile arguments -> reach the program as they are") {
  const auto ran = run_command(command({"printf", "%s|", "$(id)", "a b", ";", "\n", "'"}), 60s);
  REQUIRE(ran);
  CHECK(ran->out == "$(id)|a b|;|\n|'|");
  CHECK(ran->status.ok());
}

TEST_CASE("process: input, output and exit status of a command -> kept apart and bounded") {
  const auto echoed = run_command(command({"cat"}), 60s, 1000, std::string(5000, 'x'));
  REQUIRE(echoed);
  CHECK(echoed->out.size() == 1000);
  CHECK(echoed->truncated);
  const auto failed = run_command(command({"sh", "-c", "echo no >&2; exit 3"}), 60s);
  REQUIRE(failed);
  CHECK(failed->err == "no\n");
  CHECK(failed->status.text() == "exit 3");
  const auto killed = run_command(command({"sh", "-c", "kill -9 $$"}), 60s);
  REQUIRE(killed);
  CHECK(killed->status.text() == "signal 9 (Killed)");
}

TEST_CASE("process: an answer without end, taken piece by piece -> ended once it is enough") {
  auto yes = command({"sh", "-c", "echo why >&2; exec yes"});
  std::size_t taken = 0;
  yes.take = [&taken](std::string_view piece) {
    taken += piece.size();
    return taken < 300'000;
  };
  const Instant began = monotonic_now();
  const auto ended = run_command(yes, 60s, 1000);
  REQUIRE(ended);
  CHECK(ended->truncated);
  CHECK(ended->out.empty());
  CHECK(monotonic_now() - began < 30s);
  auto echo = command({"cat"});
  std::string whole;
  echo.take = [&whole](std::string_view piece) {
    whole += piece;
    return true;
  };
  const auto read = run_command(echo, 60s, 1000, std::string(5000, 'x'));
  REQUIRE(read);
  CHECK_FALSE(read->truncated);
  CHECK(whole == std::string(5000, 'x'));
}

TEST_CASE("process: a deadline -> the group is ended, grandchildren too, and the error says so") {
  const testing::Folder folder;
  const std::string path = folder.write("pid", "");
  const auto late = run_command(
      command({"sh", "-c",
               "trap '' TERM; echo queue full >&2; sleep 1000 & echo $! >\"$0\"; wait; sleep 1000",
               path}),
      1s);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().message().find("timed out") != std::string::npos);
  CHECK(late.error().message().find("it had said: queue full") != std::string::npos);
  const pid_t grandchild = std::atoi(os::read_file(path)->c_str());
  REQUIRE(grandchild > 1);
  const auto gone = [&] {
    const auto identity = os::identify(grandchild);
    return !identity || !os::is_alive(*identity);
  };
  for (int tries = 0; tries < 6000 && !gone(); ++tries) std::this_thread::sleep_for(10ms);
  CHECK(gone());
}

TEST_CASE("process: a program that is not there -> an error here, not an exit code") {
  const auto none = os::spawn(command({"no-such-program-of-stoker"}));
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().message().find("no-such-program-of-stoker") != std::string::npos);
}

TEST_CASE("process: an identity -> alive until it ends; a reused pid is another process") {
  auto child = os::spawn(command({"sleep", "1000"}));
  REQUIRE(child);
  CHECK(os::is_alive(child->identity));
  CHECK(os::open_process(child->identity).has_value());
  os::ProcessIdentity other = child->identity;
  ++other.started;
  CHECK_FALSE(os::is_alive(other));
  CHECK_FALSE(os::open_process(other).has_value());
  REQUIRE(os::send_signal(child->pidfd, SIGKILL));
  for (;;) {
    const auto ended = os::try_wait(*child);
    REQUIRE(ended);
    if (*ended) {
      CHECK((*ended)->signal == SIGKILL);
      break;
    }
    std::this_thread::sleep_for(1ms);
  }
  CHECK_FALSE(os::is_alive(child->identity));
}
