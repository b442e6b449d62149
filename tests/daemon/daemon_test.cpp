// The whole daemon in a child process: what a full disk, a damaged journal, a second daemon and a
// successor on a shared disk do to it. No runs: the engine's part has its own tests.
#include "daemon/loop/daemon.hpp"

#include <csignal>
#include <doctest/doctest.h>
#include <fstream>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/os/files.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

// stokerd on `state` in a child; its stderr goes to <state>.log.
class Child {
 public:
  explicit Child(const std::string& state) : state_(state) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int log = ::open((state + ".log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(log, STDERR_FILENO);
    DaemonOptions options;
    options.state_directory = state;
    int status = 1;
    {
      auto daemon = Daemon::open(options);
      if (!daemon) ::dprintf(STDERR_FILENO, "%s\n", daemon.error().message().c_str());
      if (daemon) status = static_cast<int>((*daemon)->run());
    }
    ::_exit(status);
  }
  ~Child() {
    if (pid_ > 0) end(SIGKILL);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int end(int signal) {
    ::kill(pid_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void freeze() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
    REQUIRE(WIFSTOPPED(status));
  }
  void wake() const { ::kill(pid_, SIGCONT); }
  [[nodiscard]] std::string log() const { return os::read_file(state_ + ".log").value_or(""); }
  [[nodiscard]] bool says(const std::string& text) const {
    for (int i = 0; i < 200; ++i, ::usleep(50'000))
      if (log().find(text) != std::string::npos) return true;
    return false;
  }

 private:
  std::string state_;
  pid_t pid_ = -1;
};

bool appears(const std::string& path, const std::string& text = {}) {
  for (int i = 0; i < 200; ++i, ::usleep(50'000))
    if (const auto found = os::read_file(path); found && found->find(text) != std::string::npos)
      return true;
  return false;
}

std::string ask(const std::string& state, const std::string& line) {
  const os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (state + "/stokerd.sock").copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  (void)::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL);
  return read_all(fd);
}

}  // namespace

TEST_CASE("stokerd: starts, answers, refuses a second one, says goodbye") {
  Folder folder;
  Child first(folder / "st");
  REQUIRE(first.says("ready: 0 runs, epoch 1"));
  CHECK(ask(folder / "st", "{\"verb\":\"ping\"}\n").find("\"ok\":true") != std::string::npos);
  CHECK(ask(folder / "st", "{\"verb\":\n").find("\"ok\":false") != std::string::npos);
  CHECK(ask(folder / "st", "{\"verb\":\"stop\",\"run\":\"x\"}\n").find("no run") !=
        std::string::npos);
  Child second(folder / "st");
  CHECK(second.wait() == 1);
  CHECK(second.says("works on it"));
  CHECK(first.end(SIGTERM) == 0);
  CHECK_FALSE(os::exists(folder / "st/stokerd.sock"));
  Child third(folder / "st");
  REQUIRE(third.says("ready: 0 runs, epoch 2"));
  CHECK(third.log().find("did not shut down cleanly") == std::string::npos);
}

TEST_CASE("stokerd: a flipped bit in the journal -> named, restored, goes on") {
  Folder folder;
  const std::string state = folder / "st";
  {
    Child daemon(state);
    REQUIRE(daemon.says("ready"));
    CHECK(daemon.end(SIGTERM) == 0);
  }
  {
    std::fstream file(state + "/journal.db", std::ios::in | std::ios::out | std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const auto at = bytes.find("first start");
    REQUIRE(at != std::string::npos);
    file.clear();
    file.seekp(static_cast<std::streamoff>(at));
    file.put('F');
  }
  Child daemon(state);
  REQUIRE(daemon.says("ready: 0 runs, epoch 2"));  // the log of both is one file
  CHECK(daemon.says("row 1 is damaged"));
  CHECK(daemon.says("the journal is restored"));
  CHECK(daemon.end(SIGTERM) == 0);
}

TEST_CASE("stokerd: a journal of a newer version -> one clear line, exit 1, nothing touched") {
  Folder folder;
  const std::string state = folder / "st";
  {
    Child daemon(state);
    REQUIRE(daemon.says("ready"));
    daemon.end(SIGTERM);
  }
  {
    auto db = Database::open(state + "/journal.db", OpenMode::ReadWrite);
    REQUIRE(db->execute("PRAGMA user_version=99"));
  }
  Child daemon(state);
  CHECK(daemon.wait() == 1);
  CHECK(daemon.says("written by a newer stoker (format 99"));
}

TEST_CASE("stokerd: no room for the journal -> nothing is done, it says so; with room it goes on") {
  Folder folder;
  const std::string state = folder / "st";
  REQUIRE(os::make_directories(state));
  if (::mount("none", state.c_str(), "tmpfs", 0, "size=1m") != 0) {
    std::puts("SKIPPED: a small tmpfs cannot be mounted here (needs root)");
    return;
  }
  {
    Child daemon(state);
    REQUIRE(daemon.says("ready"));
    REQUIRE(appears(state + "/pulse.log"));
    {
      std::ofstream ballast(state + "/ballast", std::ios::binary);
      const std::string block(4096, 'x');
      while (ballast.write(block.data(), 4096).flush()) {
      }
    }
    ask(state, "{\"verb\":\"exclude\",\"nodes\":[\"n01\"],\"reason\":\"test\"}\n");
    REQUIRE(daemon.says("nothing is done: the journal cannot be written"));
    CHECK(appears(state + "/pulse.log", "***ALERT nothing is done"));
    CHECK(ask(state, "{\"verb\":\"include\",\"nodes\":[\"n01\"]}\n").find("cannot be written") !=
          std::string::npos);
    REQUIRE(::unlink((state + "/ballast").c_str()) == 0);
    CHECK(daemon.says("the journal can be written again"));
    CHECK(daemon.says("n01"));
    CHECK(daemon.end(SIGTERM) == 0);
  }
  ::umount2(state.c_str(), MNT_DETACH);
}

TEST_CASE("stokerd: a shared disk -> epochs are announced; a successor stops the old one") {
  Folder folder;
  ::setenv("STOKER_STATE_FS", "network", 1);
  ::setenv("STOKER_LEASE_TIMEOUT", "600ms", 1);
  const std::string state = folder / "st";
  {
    Child first(state);
    REQUIRE(first.says("epoch 1 works on its own"));
    REQUIRE(first.says("ready"));
    REQUIRE(::unlink((state + "/stokerd.sock").c_str()) == 0);
    REQUIRE(first.says("the control socket was gone and is put back"));
    CHECK(ask(state, "{\"verb\":\"ping\"}\n").find("\"ok\":true") != std::string::npos);
    // It is frozen; a successor finds the lease standing still and makes its own socket.
    first.freeze();
    REQUIRE(os::claim_file(state + "/lease.2", to_json_text(Lease{})));
    REQUIRE(::unlink((state + "/stokerd.sock").c_str()) == 0);
    REQUIRE(os::claim_file(state + "/stokerd.sock", "of the successor"));
    first.wake();
    CHECK(first.wait() == 1);
    CHECK(first.says("another stokerd has taken over"));
    CHECK(os::read_file(state + "/stokerd.sock").value_or("") == "of the successor");
  }
  ::unsetenv("STOKER_STATE_FS");
  ::unsetenv("STOKER_LEASE_TIMEOUT");
}
