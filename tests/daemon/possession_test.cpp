// Possession: one daemon a state directory, on local and on network file systems.
#include "daemon/state/possession.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/os/files.hpp"
#include "daemon/journal/sqlite_journal.hpp"
#include "daemon/state/state_lock.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

TEST_CASE("possession: two daemons on a local disk -> the second names the first; epochs grow") {
  Folder folder;
  auto first = Possession::take({folder.path, false, 30s, {}});
  REQUIRE(first);
  CHECK((*first)->epoch() == Epoch(1));
  const auto second = Possession::take({folder.path, false, 30s, {}});
  REQUIRE_FALSE(second);
  CHECK(second.error().what.find("pid " + std::to_string(::getpid())) != std::string::npos);
  first->reset();
  const auto third = Possession::take({folder.path, false, 30s, {}});
  REQUIRE(third);
  CHECK((*third)->epoch() == Epoch(2));
}

TEST_CASE("possession: the owner died, its half-made child holds the lock a while -> waited for") {
  Folder folder;
  const pid_t owner = ::fork();
  REQUIRE(owner >= 0);
  if (owner == 0) {
    const auto mine = Possession::take({folder.path, false, 30s, {}});
    if (::fork() == 0) std::this_thread::sleep_for(700ms);  // has not begun its own program yet
    ::_exit(mine ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(owner, &status, 0) == owner);
  REQUIRE(status == 0);
  const auto next = Possession::take({folder.path, false, 30s, {}});
  REQUIRE(next);
  CHECK((*next)->epoch() == Epoch(2));
}

TEST_CASE(
    "possession: a dead owner's lock that the kernel keeps -> replaced; the next is refused") {
  Folder folder;
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t owner = ::fork();
  REQUIRE(owner >= 0);
  if (owner == 0) {
    const auto mine = Possession::take({folder.path, false, 30s, {}});
    const pid_t child = ::fork();  // stands for a thread that sleeps in the kernel
    if (child == 0) {
      char byte = 0;
      ::close(pipe[1]);
      ::_exit(static_cast<int>(::read(pipe[0], &byte, 1)));
    }
    ::_exit(mine ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(owner, &status, 0) == owner);
  REQUIRE(status == 0);
  for (const char* part : {"journal.db", "journal.db-wal", "journal.db-shm"})
    REQUIRE(os::replace_file(folder / part, part, os::Durability::Cached, 0600));
  const os::Fd held(::open((folder / "journal.db").c_str(), O_RDONLY | O_CLOEXEC));  // its locks
  REQUIRE(::mkdir((folder / "journal.db-journal").c_str(), 0700) == 0);  // cannot be copied
  REQUIRE_FALSE(Possession::take({folder.path, false, 30s, {}}));
  REQUIRE(::rmdir((folder / "journal.db-journal").c_str()) == 0);  // and all is as it was
  const auto next = Possession::take({folder.path, false, 30s, {}});
  REQUIRE(next);
  CHECK((*next)->epoch() == Epoch(2));
  struct stat before {
  }, after{};
  REQUIRE(::fstat(held.get(), &before) == 0);
  REQUIRE(::stat((folder / "journal.db").c_str(), &after) == 0);
  CHECK(before.st_ino != after.st_ino);
  CHECK((after.st_mode & 0777) == 0600);
  CHECK(os::read_file(folder / "journal.db").value() == "journal.db");
  CHECK(os::read_file(folder / "journal.db-wal").value() == "journal.db-wal");
  CHECK_FALSE(os::exists(folder / "journal.db-shm"));
  REQUIRE((*next)->left_behind());
  CHECK((*next)->left_behind()->pid == owner);
  const auto second = Possession::take({folder.path, false, 30s, {}});
  REQUIRE_FALSE(second);
  CHECK(second.error().what.find("pid " + std::to_string(::getpid())) != std::string::npos);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_CASE(
    "state lock: the text of /proc/locks -> who holds a file, not who waits, nor of its number "
    "elsewhere") {
  const char* text =
      "1: POSIX  ADVISORY  WRITE 14850 fe:00:11084625 1073741824 1073742335\n"
      "2: FLOCK  ADVISORY  WRITE 14850 fe:00:11084617 0 EOF\n"
      "2: -> FLOCK  ADVISORY  WRITE 14851 fe:00:11084617 0 EOF\n"
      "3: FLOCK  ADVISORY  READ  14830 00:1a:11084617 0 EOF\n"
      "4: OFDLCK ADVISORY  WRITE -1 fe:00:11084617 0 EOF\n"
      "5: LEASE  BREAKING  READ  911 fe:00:11084617 0 EOF\n"
      "6: FLOCK  ADVISORY  WRITE 99 fe:00:1108461 0 EOF\n7: FLOCK\n";
  CHECK(flock_holders(text, "fe:00", 11084617) == std::vector<std::int64_t>{14850});
  CHECK(flock_holders(text, "00:1a", 11084617) == std::vector<std::int64_t>{14830});
  CHECK(flock_holders(text, "fe:00", 11084625).empty());
  CHECK(flock_holders("", "fe:00", 1).empty());
  CHECK(flock_device(text, 14830, 11084617) == "00:1a");
  CHECK(flock_device(text, 14851, 11084617).empty());
  CHECK(flock_device(text, 99, 11084617).empty());
}

TEST_CASE("possession: a network lease that is renewed -> refused to another daemon") {
  Folder folder;
  auto first = Possession::take({folder.path, true, 5s, {}});
  REQUIRE(first);
  int waits = 0;
  const auto second = Possession::take({folder.path, true, 5s, [&](Duration) {
                                          REQUIRE(++waits < 10);
                                          return bool((*first)->renew());
                                        }});
  REQUIRE_FALSE(second);
  CHECK(second.error().what.find("works on it") != std::string::npos);
}

TEST_CASE(
    "possession: a living owner -> waited for where that is wanted, reported once, taken over") {
  Folder folder;
  auto first = Possession::take({folder.path, true, 100ms, {}});
  REQUIRE(first);
  int renewed = 0;
  std::vector<std::string> told;
  const auto wait = [&](Duration pause) {
    std::this_thread::sleep_for(pause / 10);
    return ++renewed > 20 || bool((*first)->renew());  // then it stands still
  };
  const auto second =
      Possession::take({folder.path, true, 100ms, wait, [&](const auto& o) { told.push_back(o); }});
  REQUIRE(second);
  CHECK((*second)->epoch() == Epoch(2));
  CHECK(renewed > 20);
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("works on it") != std::string::npos);
}

TEST_CASE(
    "possession: somebody else takes it over while we wait -> the winner's lease is left alone") {
  Folder folder;
  auto first = Possession::take({folder.path, true, 5s, {}});
  REQUIRE(first);
  const std::string winner = folder / "lease.2";
  const auto second = Possession::take({folder.path, true, 50ms, [&](Duration pause) {
                                          std::this_thread::sleep_for(pause);
                                          (void)os::claim_file(winner, "{\"host\":\"x\"}");
                                          return true;
                                        }});
  REQUIRE_FALSE(second);
  CHECK(os::read_file(winner).value_or("") == "{\"host\":\"x\"}");
}

TEST_CASE("possession: a lease whose counter stands still -> taken over; the old owner is fenced") {
  Folder folder;
  auto first = Possession::take({folder.path, true, 5s, {}});
  REQUIRE(first);
  auto old = SqliteJournal::open(
      {(*first)->journal_path(), true, [&first] { return (*first)->still_ours(); }});
  REQUIRE(old);
  REQUIRE((*old)->append({row(1, core::SchedulerSees{})}, state(1, "S1"), {}));

  auto second = Possession::take({folder.path, true, 0ms, {}});
  REQUIRE_MESSAGE(second, (second ? "" : second.error().message()));
  CHECK((*second)->epoch() == Epoch(2));
  CHECK((*second)->journal_path() == folder / "journal.2.db");
  auto successor = SqliteJournal::open({(*second)->journal_path(), true, {}});
  REQUIRE_MESSAGE(successor, (successor ? "" : successor.error().message()));
  CHECK((*(*successor)->load_state())->bytes == "S1");

  const auto late = (*old)->append({row(2, core::SchedulerSees{})}, state(2), {});
  REQUIRE_FALSE(late);
  CHECK(late.error().what.find("taken over") != std::string::npos);
  CHECK_FALSE((*first)->renew());
  CHECK((*successor)->append({row(2, core::SchedulerSees{})}, state(2), {}));
}

TEST_CASE("possession: a released lease -> taken at once") {
  Folder folder;
  {
    auto first = Possession::take({folder.path, true, 1h, {}});
    REQUIRE(first);
  }
  CHECK(Possession::take({folder.path, true, 1h, {}}));
}

TEST_CASE("possession: STOKER_STATE_FS -> decides against statfs") {
  Folder folder;
  std::string name;
  ::setenv("STOKER_STATE_FS", "network", 1);
  CHECK(*state_is_on_network(folder.path, name));
  ::setenv("STOKER_STATE_FS", "local", 1);
  CHECK_FALSE(*state_is_on_network(folder.path, name));
  ::unsetenv("STOKER_STATE_FS");
  CHECK_FALSE(name.empty());
}

TEST_CASE(
    "possession: a lease or an epoch that cannot be read -> refused, no older epoch is used") {
  Folder folder;
  REQUIRE(Possession::take({folder.path, false, 30s, {}}));
  REQUIRE(Possession::take({folder.path, false, 30s, {}}));
  folder.write("epoch", "");  // torn: the lock still knows
  const auto third = Possession::take({folder.path, false, 30s, {}});
  REQUIRE(third);
  CHECK((*third)->epoch() == Epoch(3));
}

TEST_CASE("possession: an owner that ended before it copied the journal -> its predecessor's") {
  Folder folder;
  {
    auto first = Possession::take({folder.path, true, 5s, {}});
    REQUIRE(first);
    auto journal = SqliteJournal::open({(*first)->journal_path(), true, {}});
    REQUIRE(journal);
    REQUIRE((*journal)->append({row(1, core::SchedulerSees{})}, state(1, "S1"), {}));
  }
  folder.write("lease.2", R"({"epoch":2,"released":true})");  // and no journal.2.db
  const auto third = Possession::take({folder.path, true, 5s, {}});
  REQUIRE(third);
  CHECK((*third)->epoch() == Epoch(3));
  auto journal = SqliteJournal::open({(*third)->journal_path(), true, {}});
  REQUIRE(journal);
  REQUIRE((*journal)->load_state()->has_value());
  CHECK((*(*journal)->load_state())->bytes == "S1");
}
