// When an agent obeys a switch file, and the process that looks for it.
#include "worker/agent/switch_patience.hpp"

#include <csignal>
#include <doctest/doctest.h>
#include <fstream>
#include <functional>

#include "tests/folder.hpp"
#include "worker/agent/switch_process.hpp"

using namespace stoker;
using namespace stoker::agent;
using stoker::testing::Folder;

namespace {

constexpr std::uint32_t kOwner = 1000, kMate = 1001;

SwitchSeen file(const std::string& verb, const std::string& name, std::uint32_t owner,
                const std::string& identity = "1") {
  return {verb, name, owner, identity, std::to_string(owner), ""};
}

// The names of all orders that are due within `length`, with a look each 200 ms; `files` gives what
// lies there at the look of this number.
std::vector<std::string> orders(SwitchPatience& patience, Instant& now, Duration length,
                                const std::function<std::vector<SwitchSeen>(int)>& files) {
  std::vector<std::string> names;
  int look = 0;
  for (const Instant end = now + length; now < end; now += 200ms)
    for (const SwitchSeen& order : patience.due(files(look++), now))
      names.push_back(order.by + " " + order.name);
  return names;
}
std::vector<std::string> orders(Duration length,
                                const std::function<std::vector<SwitchSeen>(int)>& files) {
  SwitchPatience patience;
  Instant now = Instant{} + 1h;
  return orders(patience, now, length, files);
}

using Names = std::vector<std::string>;

// This program again, with the test case below alone.
const std::vector<std::string> kLooker{"/proc/self/exe", "--no-skip", "-tc=the looker of a test"};

}  // namespace

TEST_CASE("the looker of a test" * doctest::skip()) {
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  std::string socket;
  for (std::string word; std::getline(arguments, word, '\0');) socket = word;
  (void)answer_looks(std::stoi(socket));
}

TEST_CASE("switch patience: kill after two seconds, stop and save after four, each once") {
  for (const char* verb : {"kill", "stop", "save"}) {
    const auto files = [verb](int) { return std::vector{file(verb, verb, kOwner)}; };
    const Duration patience = std::string(verb) == "kill" ? 2s : 4s;
    CHECK(orders(patience, files).empty());
    CHECK(orders(1min, files) == Names{std::string("1000 ") + verb});
  }
}

TEST_CASE("switch patience: a colleague's file that changes all the time -> ours is due in time") {
  for (const char* verb : {"kill", "stop", "save"}) {
    const auto files = [verb](int look) {
      return std::vector{file(verb, verb, kOwner),
                         file(verb, "OTHER", kMate, std::to_string(look))};
    };
    const Names due = orders(5s, files);
    REQUIRE(due.size() == 2);
    CHECK(due[0] == std::string("1000 ") + verb);
  }
}

TEST_CASE("switch patience: our own file that others touch, or another of its names -> no delay") {
  const auto touched = [](int look) {
    return std::vector{file("stop", "stop", kOwner, std::to_string(look))};
  };
  CHECK(orders(5s, touched) == Names{"1000 stop"});
  const auto renamed = [](int look) {
    return std::vector{file("stop", look % 2 == 0 ? "stop" : "STOP", kOwner)};
  };
  CHECK(orders(5s, renamed).size() == 1);
}

TEST_CASE("switch patience: one author's file that changes -> one order in six seconds") {
  const auto files = [](int look) {
    return std::vector{file("save", "save", kMate, std::to_string(look)),
                       file("save", "SAVE", kMate, std::to_string(look))};
  };
  CHECK(orders(1min, files).size() == 10);
}

TEST_CASE("switch patience: taken away and put there again -> it waits again") {
  SwitchPatience patience;
  Instant now = Instant{} + 1h;
  const auto there = [](int) { return std::vector{file("kill", "kill", kOwner)}; };
  const auto gone = [](int) { return std::vector<SwitchSeen>{}; };
  CHECK(orders(patience, now, 1s, there).empty());
  CHECK(orders(patience, now, 200ms, gone).empty());
  CHECK(orders(patience, now, 1900ms, there).empty());
  CHECK(orders(patience, now, 1s, there).size() == 1);
}

TEST_CASE("switch process: it sees what lies there; while it is stuck no call waits longer") {
  const Folder folder;
  REQUIRE(std::filesystem::create_directory(folder / "switch"));
  auto process = std::make_unique<SwitchProcess>();
  process->start_as(kLooker);
  const auto first = process->look(folder.path, 20s);
  REQUIRE_MESSAGE(first, first.error().message());
  CHECK(first->seen.empty());
  folder.write("switch/Stop", "enough");
  const auto second = process->look(folder.path, 20s);
  REQUIRE(second);
  REQUIRE(second->seen.size() == 1);
  CHECK(second->seen[0].name == "Stop");
  CHECK(second->seen[0].reason == "enough");
  const pid_t pid = process->pid();
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  const Instant began = monotonic_now();
  const auto stuck = process->look(folder.path, 300ms);
  CHECK_FALSE(stuck);
  CHECK(monotonic_now() - began < 5s);
  CHECK_FALSE(process->look(folder.path, 100ms));
  CHECK(process->pid() == pid);
  REQUIRE(::kill(pid, SIGCONT) == 0);
  CHECK(process->look(folder.path, 20s));
  REQUIRE(::kill(pid, SIGKILL) == 0);
  (void)process->look(folder.path, 20s);
  const auto again = process->look(folder.path, 20s);
  REQUIRE(again);
  CHECK(again->seen.size() == 1);
  CHECK(process->pid() != pid);
}

TEST_CASE("switch process: the folder is refused -> the reason comes through") {
  const Folder folder, elsewhere;
  std::filesystem::create_symlink(elsewhere.path, folder / "switch");
  SwitchProcess process;
  process.start_as(kLooker);
  const auto look = process.look(folder.path, 20s);
  REQUIRE_FALSE(look);
  CHECK(look.error().message().find("switch files refused") != std::string::npos);
}
