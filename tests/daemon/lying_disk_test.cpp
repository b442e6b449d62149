// A file system that lies (tests/lying/shim.cpp, by LD_PRELOAD) below three lives of a daemon: a
// first start, a damaged journal that is restored, a lease that is taken over. Each call fails once
// in each way that it can. All that was promised is there afterwards, what failed was reported, and
// the next life goes on as if nothing had happened. A sample; every call with STOKER_LONG.
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <sys/wait.h>

#include "common/os/process.hpp"
#include "daemon/journal/restore.hpp"
#include "tests/daemon/fixtures.hpp"
#include "tests/lying/scenario.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

// What can happen to a call of the shim's kinds: c create, o open, r read, w write, f fsync,
// u truncate, n rename and link, m mkdir, t stat, d readdir.
const std::map<char, std::vector<const char*>> kWays{
    {'c', {"EMFILE", "ENOSPC", "EIO"}}, {'o', {"EMFILE", "EIO", "ESTALE"}},
    {'r', {"EIO", "ESTALE", "short"}},  {'w', {"ENOSPC", "EIO", "short"}},
    {'f', {"EIO", "ENOSPC"}},           {'u', {"EIO", "ENOSPC"}},
    {'n', {"EIO", "ESTALE", "lost"}},   {'m', {"ENOSPC", "EIO"}},
    {'t', {"EIO", "ESTALE", "stale"}},  {'d', {"EIO", "ESTALE"}}};

struct Outcome {
  int exit = -1;
  std::vector<std::string> said;
  [[nodiscard]] bool reported() const {
    for (const std::string& line : said)
      if (line.starts_with("error: ") || line.find("damaged: ") != std::string::npos) return true;
    return false;
  }
  [[nodiscard]] std::string text() const { return fmt::format("{}", fmt::join(said, "\n")); }
};

// One life in a process of its own, with the shim.
Outcome live(const std::string& folder, const std::string& log, bool network, long call,
             const std::string& how) {
  const std::string out = log + ".out";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(fd, STDOUT_FILENO);
    ::setenv("LD_PRELOAD", STOKER_LYING_SHIM, 1);
#ifdef __SANITIZE_ADDRESS__  // the shim stands in front of its runtime; the parent looks for leaks
    ::setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
#endif
    ::setenv("LYING_ROOT", folder.c_str(), 1);
    ::setenv("LYING_LOG", log.c_str(), 1);
    ::setenv("LYING_CALL", std::to_string(call).c_str(), 1);
    ::setenv("LYING_HOW", how.c_str(), 1);
    ::setenv("STOKER_STATE_FS", network ? "network" : "local", 1);
    ::setenv("STOKER_LEASE_TIMEOUT", "0s", 1);
    ::execl(STOKER_LYING_SCENARIO, STOKER_LYING_SCENARIO, folder.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  Outcome outcome;
  outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::istringstream lines(os::read_file(out).value_or(""));
  for (std::string line; std::getline(lines, line);) outcome.said.push_back(line);
  return outcome;
}

struct Scenario {
  const char* name;
  bool network;
  std::function<void(const std::string& folder)> prepare;
};

void one_life(const std::string& folder, bool network) {
  const auto outcome = live(folder, folder + ".log", network, -1, "");
  REQUIRE_MESSAGE(outcome.exit == 0, outcome.text());
}

void cut_in_half(const std::string& folder) {
  one_life(folder, false);
  one_life(folder, false);
  const std::string journal = folder + "/state/journal.db";
  std::filesystem::resize_file(journal, std::filesystem::file_size(journal) / 2 / 4096 * 4096);
}

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"a first start", false, [](const std::string&) {}},
      {"a journal cut in half", false, cut_in_half},
      {"a lease taken over", true, [](const std::string& folder) { one_life(folder, true); }}};
  return all;
}

// Every promise of these lives is kept by what a sound file system shows now.
void check_promises(const std::string& folder, bool network, const std::vector<std::string>& said) {
  const Outcome after = live(folder, folder + ".after", network, -1, "");
  CHECK_MESSAGE(after.exit == 0, after.text());
  CHECK_MESSAGE(!after.reported(), after.text());
  REQUIRE(!after.said.empty());
  const std::string epoch = after.said.front().substr(after.said.front().find(' ') + 1);
  auto journal = SqliteJournal::open(
      {folder + (network ? "/state/journal." + epoch + ".db" : "/state/journal.db"), false, {}});
  REQUIRE_MESSAGE(journal, (journal ? "" : journal.error().message()));
  std::set<std::string> held;
  if (const auto rows = (*journal)->intact_rows_of({RunName("hello")}, Sequence(0), 1000); rows)
    for (const auto& row : *rows)
      if (const auto* blind = std::get_if<core::SchedulerBlind>(&row.event.body))
        held.insert(blind->why);
  for (const std::string& line : said) {
    if (line.starts_with("row ")) CHECK_MESSAGE(held.contains(line), line << " is lost");
    if (line.starts_with("epoch ")) CHECK(std::stoi(line.substr(6)) < std::stoi(epoch));
    if (line.starts_with("order "))
      CHECK(os::read_file(folder + "/run/order." + line.substr(6)).value_or("") ==
            "order of epoch " + line.substr(6));
  }
  CHECK(os::read_file(folder + "/run/control.json").value_or("") == "control of epoch " + epoch);
}

// The lines of the first start are promises to a life behind a cut journal too, as far as a sound
// disk would have kept them.
void play(const Scenario& scenario, std::mt19937_64& random, std::size_t most) {
  Folder prepared, work;
  std::filesystem::create_directories(prepared / "site/run");
  scenario.prepare(prepared / "site");
  const auto copy = [&](const std::string& name) {
    std::filesystem::copy(prepared / "site", work / name, std::filesystem::copy_options::recursive);
    return work / name;
  };
  const std::string plain = copy("plain");
  const Outcome sound = live(plain, work / "plain.log", scenario.network, -1, "");
  REQUIRE_MESSAGE(sound.exit == 0, sound.text());
  const std::string kinds = os::read_file(work / "plain.log").value_or("");
  REQUIRE(kinds.size() > 50);
  struct Blow {
    long call;
    const char* how;
  };
  std::vector<Blow> blows;
  for (std::size_t call = 0; call < kinds.size(); ++call)
    for (const char* how : kWays.at(kinds[call])) blows.push_back({static_cast<long>(call), how});
  const std::size_t all = blows.size();
  std::shuffle(blows.begin(), blows.end(), random);
  if (blows.size() > most) blows.resize(most);
  std::size_t felt = 0;
  for (const Blow& blow : blows) {
    const std::string what = fmt::format("{}: call {} ({}) {}", scenario.name, blow.call,
                                         kinds[static_cast<std::size_t>(blow.call)], blow.how);
    CAPTURE(what);
    const std::string folder = copy("case");
    const Outcome outcome = live(folder, work / "case.log", scenario.network, blow.call, blow.how);
    CAPTURE(outcome.text());
    CHECK((outcome.exit == 0 || outcome.exit == 1));
    felt += outcome.reported() ? 1 : 0;
    // What did not come to its end has said why.
    if (outcome.exit != 0 || outcome.said.size() < sound.said.size()) CHECK(outcome.reported());
    check_promises(folder, scenario.network, outcome.said);
    std::filesystem::remove_all(folder);
  }
  MESSAGE(std::string(scenario.name) << ": " << blows.size() << " of " << all << " blows, " << felt
                                     << " were felt and reported");
  CHECK(felt > 0);
}

}  // namespace

TEST_CASE(
    "lying disk: each call fails once -> promises are kept, failures reported, no wrong act") {
  std::mt19937_64 random(7);
  const std::size_t most = std::getenv("STOKER_LONG") != nullptr ? 1'000'000 : 40;
  for (const Scenario& scenario : scenarios()) play(scenario, random, most);
}
