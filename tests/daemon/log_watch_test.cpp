// A run directory and a kernel log as they grow; what the decider receives, once, across a restart.
#include "daemon/logs/log_watch.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::daemon;

namespace {

struct Watched {
  Watched() {
    policy.run = RunName("demo");
    policy.directory = folder.path;
    std::filesystem::create_directory(folder / "gen-000001");
  }
  LogWatch start() { return {policy, false, cursors, knowledge}; }
  // The verdicts of one poll; their cursors are kept as a journal would.
  std::vector<core::Diagnosed> poll(LogWatch& watch, std::vector<core::Input> heard = {}) {
    now += 11s;
    watch.poll(now, heard);
    std::vector<core::Diagnosed> verdicts;
    kinds.clear();
    notes.clear();
    for (const core::Input& input : heard) {
      kinds.emplace_back(core::kind_of(input.body));
      if (const auto* f = std::get_if<core::LogFollowed>(&input.body))
        notes.push_back(f->path + ": " + f->detail);
      if (const auto* d = std::get_if<core::Diagnosed>(&input.body)) verdicts.push_back(*d);
      for (const core::Cursor& cursor : input.cursors) {
        std::erase_if(cursors, [&](const core::Cursor& c) { return c.path == cursor.path; });
        cursors.push_back(cursor);
      }
    }
    return verdicts;
  }
  core::Input said(wire::AgentBody body) const {
    return {policy.run, core::AgentSaid{Generation{1}, "lead", {1, now, {}, std::move(body)}}, {}};
  }
  stoker::testing::Folder folder;
  core::RunPolicy policy;
  LogKnowledge knowledge;
  std::vector<core::Cursor> cursors;
  std::vector<std::string> kinds, notes;
  Instant now{100s};
};

wire::AttemptStarted attempt(std::uint32_t number) {
  wire::AttemptStarted e;
  e.attempt = Attempt{number};
  return e;
}
wire::RankExited exited(std::uint32_t attempt_number, const std::string& last) {
  wire::RankExited e;
  e.attempt = Attempt{attempt_number};
  e.node = NodeName("n02");
  e.rank = Rank{3};
  e.code = 1;
  e.last_lines = last;
  return e;
}

// While it lives, this process may open only so many files.
struct Descriptors {
  explicit Descriptors(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit few = before;
    few.rlim_cur = limit;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~Descriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  rlimit before{};
};

std::size_t open_below(const std::string& folder) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry, ignored).string().starts_with(folder + "/")) ++files;
  }
  return files;
}

constexpr const char* kOom =
    "[n02:3] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";

}  // namespace

TEST_CASE(
    "log watch: a rank's last lines reach main.log late -> the verdict still comes before its "
    "end is reported") {
  Watched w;
  LogWatch watch = w.start();
  w.poll(watch, {w.said(attempt(1))});
  w.folder.append("gen-000001/main.log", "[n01:0] starting\n");
  const auto verdicts = w.poll(
      watch, {w.said(exited(1, "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"))});
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].failure_class == "cuda_oom");
  CHECK(verdicts[0].attempt == Attempt{1});
  CHECK(verdicts[0].nodes == std::vector{NodeName("n02")});
  CHECK(w.kinds == std::vector<std::string>{"diagnosed", "agent_said"});
}

TEST_CASE("log watch: killed and started again between two lines -> each verdict once") {
  Watched w;
  {
    LogWatch watch = w.start();
    w.poll(watch, {w.said(attempt(2))});
    w.folder.append("gen-000001/main.log", kOom);
    REQUIRE(w.poll(watch).size() == 1);
  }
  LogWatch watch = w.start();
  CHECK(w.poll(watch).empty());
  w.folder.append("gen-000001/main.log", kOom);
  CHECK(w.poll(watch).empty());
  // What it had read before is remembered: the time-out is an effect, and no other cause.
  w.folder.append("gen-000001/main.log",
                  "[n01:0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, "
                  "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600027 milliseconds\n");
  CHECK(w.poll(watch).empty());
  w.poll(watch, {w.said(attempt(3))});
  w.folder.append("gen-000001/main.log", kOom);
  const auto verdicts = w.poll(watch);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].attempt == Attempt{3});
}

TEST_CASE(
    "log watch: a kernel log that was there before -> old Xids are history, new ones accuse "
    "the node in its name, %N") {
  Watched w;
  w.policy.watch.kernel_logs = {w.folder / "kern-%N.log"};
  const auto xid = [](int seconds) {
    return "[ " + std::to_string(seconds) +
           ".5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
  };
  w.folder.append("kern-n02.log", xid(10));
  {
    LogWatch watch = w.start();
    CHECK(w.poll(watch).empty());
    CHECK(w.poll(watch).empty());
  }
  w.folder.append("kern-n02.log", xid(900));  // while the daemon is away
  w.folder.append("kern-n03.log", xid(901));
  LogWatch watch = w.start();
  const auto verdicts = w.poll(watch);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].failure_class == "gpu_fallen_off_bus");
  CHECK(verdicts[0].from_kernel);
  REQUIRE(!verdicts[0].exclude.empty());
  CHECK(verdicts[0].evidence.front().find("kern-n02.log:") != std::string::npos);
}

TEST_CASE("log watch: renamed while the daemon is away, without a successor -> read to its end") {
  Watched w;
  w.policy.watch.logs = {w.folder / "*.log"};
  {
    LogWatch watch = w.start();
    w.poll(watch);
    w.folder.append("train.log", "starting\n");
    w.poll(watch);
    w.folder.append("train.log", "still starting\n");
    w.poll(watch, {w.said(attempt(1))});
    w.folder.append("train.log", "Traceback (most recent call last):\n");
    w.poll(watch);
  }
  REQUIRE(!w.cursors.empty());
  w.folder.append("train.log", kOom);
  std::filesystem::rename(w.folder / "train.log", w.folder / "train.log.1");
  LogWatch watch = w.start();
  const auto verdicts = w.poll(watch);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].failure_class == "cuda_oom");
}

TEST_CASE("log watch: the first log of a script -> followed before its job's end is judged") {
  Watched w;
  w.policy.train.batch_script = "/home/a/tr11.slurm";
  w.policy.watch.logs = {w.folder / "*.out"};
  LogWatch watch = w.start();
  w.poll(watch);
  w.folder.append("run-7.out", "step=60 loss=1\n");
  w.now -= 7s;  // 4 s after the poll before
  w.poll(watch);
  CHECK(w.kinds == std::vector<std::string>{"log_followed"});
}

TEST_CASE("log watch: a site's signature with a mistake -> said, ours go on") {
  Watched w;
  w.folder.append("site.yaml", "family: site\nsignatures: [{name: x}]\n");
  w.policy.watch.signatures = {w.folder / "site.yaml"};
  w.folder.append("gen-000001/main.log", kOom);
  LogWatch watch = w.start();
  CHECK(w.poll(watch).size() == 1);
  CHECK(w.kinds.front() == "log_followed");
}

TEST_CASE("log watch: logs that stop growing after an error -> a silence, ever longer ones count") {
  Watched w;
  LogWatch watch = w.start();
  w.poll(watch, {w.said(attempt(1))});
  w.folder.append("gen-000001/main.log", "[n01:0] starting\n");
  w.poll(watch);
  w.poll(watch);
  CHECK(watch.silences() == 0);  // silent, but without an error
  w.folder.append("gen-000001/main.log", kOom);
  w.poll(watch);
  CHECK(watch.silences() == 0);
  w.poll(watch);  // 11 s later
  CHECK(watch.silences() == 1);
  w.poll(watch);
  CHECK(watch.silences() == 1);
  for (int i = 0; i < 9;
       ++i) {  // 6 s, 12 s and more are needed now: lines each 11 s are no silence
    w.folder.append("gen-000001/main.log", "[n01:0] leaving\n");
    w.poll(watch);
  }
  CHECK(watch.silences() <= 2);
  w.poll(watch, {w.said(attempt(2))});
  w.poll(watch);
  CHECK(watch.silences() <= 2);
}

TEST_CASE("log watch: more logs than there are descriptors for -> a quarter of them, one line") {
  Watched w;
  const Descriptors few(256);
  w.policy.watch.logs = {w.folder / "*.log"};
  LogWatch watch = w.start();
  w.poll(watch);
  for (int i = 0; i < 300; ++i) w.folder.append("m" + std::to_string(i) + ".log", "a\n");
  w.poll(watch);
  CHECK(open_below(w.folder.path) == 64);
  REQUIRE(w.notes.size() == 2);
  CHECK(w.notes[0].find("64 logs are followed, ") != std::string::npos);
  CHECK(w.notes[1].find("236 of 300 logs are not followed") != std::string::npos);
  for (int i = 300; i < 320; ++i) w.folder.append("m" + std::to_string(i) + ".log", "a\n");
  w.poll(watch);
  CHECK(w.notes.empty());

  Watched other;  // all runs together: a half
  other.policy.watch.logs = w.policy.watch.logs;
  LogWatch second = other.start(), third = other.start();
  other.poll(second);
  other.poll(third);
  CHECK(open_below(w.folder.path) == 128);
}

TEST_CASE("log watch: too many logs of a stranger -> ours and the newest are followed") {
  Watched w;
  const Descriptors few(64);
  const auto stranger = [&](const std::string& name) {
    w.folder.append(name, "a\n");
    if (::geteuid() == 0) REQUIRE(::chown((w.folder / name).c_str(), 4711, 4711) == 0);
  };
  w.policy.watch.logs = {w.folder / "*.log"};
  LogWatch watch = w.start();
  w.poll(watch, {w.said(attempt(1))});
  for (int i = 0; i < 40; ++i) stranger("a" + std::to_string(i) + ".log");
  w.poll(watch);
  w.folder.append("train.log", "starting\n");
  for (int i = 0; i < 40; ++i) {
    stranger("b" + std::to_string(i) + ".log");
    const std::filesystem::path path = w.folder / ("b" + std::to_string(i) + ".log");
    const auto later = ::geteuid() == 0 ? std::chrono::hours(1) : std::chrono::hours(-1);
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() + later);
  }
  w.poll(watch);
  CHECK(open_below(w.folder.path) == 16);
  w.folder.append("train.log", kOom);
  const auto verdicts = w.poll(watch);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].evidence.front().find("train.log:2:") != std::string::npos);
}

TEST_CASE("log watch: a stranger's link, of a log or of a folder -> not followed, said once") {
  if (::geteuid() != 0) return;
  Watched w;
  w.folder.append("secret", "RuntimeError: password hunter2\n");
  std::filesystem::create_directory(w.folder / "logs");
  std::filesystem::create_directory(w.folder / "home");
  w.folder.append("home/out.log", std::string("starting\n") + kOom);
  std::filesystem::create_symlink(w.folder / "secret", w.folder / "logs/a.log");
  std::filesystem::create_symlink(w.folder / "home", w.folder / "logs/job");
  for (const char* link : {"logs/a.log", "logs/job"})
    REQUIRE(::lchown((w.folder / link).c_str(), 4711, 4711) == 0);
  w.policy.watch.logs = {w.folder / "logs/*.log", w.folder / "logs/*/out.log"};
  LogWatch watch = w.start();
  w.poll(watch, {w.said(attempt(1))});
  w.folder.append("secret", kOom);
  w.folder.append("home/out.log", kOom);
  CHECK(w.poll(watch).empty());
  CHECK(open_below(w.folder / "secret") == 0);
  REQUIRE(::lchown((w.folder / "logs/job").c_str(), 0, 0) == 0);  // as a link of our own it counts
  w.poll(watch);
  w.folder.append("home/out.log", kOom);
  CHECK(w.poll(watch).size() == 1);
}

TEST_CASE("log watch: ever more links of a stranger -> a hundred are named, then their number") {
  if (::geteuid() != 0) return;
  Watched w;
  w.folder.append("secret", "a\n");
  w.policy.watch.logs = {w.folder / "*.log"};
  LogWatch watch = w.start();
  w.poll(watch);
  for (int i = 0; i < 150; ++i) {
    const std::string link = w.folder / fmt::format("{}.log", i);
    std::filesystem::create_symlink(w.folder / "secret", link);
    REQUIRE(::lchown(link.c_str(), 4711, 4711) == 0);
  }
  w.poll(watch);
  std::size_t refused = 0;
  for (const std::string& note : w.notes) refused += note.find("refused: ") != std::string::npos;
  CHECK(refused == 101);
}

TEST_CASE("log watch: ever more logs -> a thousand are named, then their number when it doubles") {
  Watched w;
  w.policy.watch.logs = {w.folder / "*.log"};
  LogWatch watch = w.start();
  w.poll(watch);
  std::size_t notes = 0;
  for (int n = 0; n < 420; ++n) {
    for (int i = 0; i < 6; ++i) {
      const std::string name = fmt::format("m{:05}.log", 6 * n + i);
      w.folder.append(name, "");
      if (n > 2) std::filesystem::remove(w.folder / fmt::format("m{:05}.log", 6 * (n - 2) + i));
    }
    w.poll(watch);
    notes += w.notes.size();
  }
  CHECK(notes > 990);
  CHECK(notes <= 1002);
}

TEST_CASE("log watch: many long logs -> some of them a poll, our own each time, all in the end") {
  Watched w;
  w.policy.watch.logs = {w.folder / "*.log"};
  LogWatch watch = w.start();
  w.poll(watch, {w.said(attempt(1))});
  for (int i = 0; i < 12; ++i) w.folder.append(fmt::format("m{:02}.log", i), "a\n");
  w.poll(watch);
  const std::string lines = std::string(3u << 20, 'x') + "\n";
  for (int i = 0; i < 12; ++i)
    w.folder.append(fmt::format("m{:02}.log", i), i == 11 ? lines + kOom : lines);
  int polls = 1;
  for (; w.poll(watch).empty() && polls < 5; ++polls) CHECK(watch.more());
  CHECK(polls >= 2);
  CHECK(polls < 5);
  w.poll(watch);
  CHECK_FALSE(watch.more());
}

TEST_CASE("log watch: a log that was left for others -> goes on where it was") {
  Watched w;
  w.policy.watch.logs = {w.folder / "*.log"};
  LogWatch watch = w.start();
  w.poll(watch, {w.said(attempt(1))});
  w.folder.append("old.log", std::string("starting\n") + kOom);
  CHECK(w.poll(watch).size() == 1);
  std::filesystem::last_write_time(
      w.folder / "old.log", std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  {
    const Descriptors few(64);
    for (int i = 0; i < 16; ++i) w.folder.append("m" + std::to_string(i) + ".log", "a\n");
    w.poll(watch);
    CHECK(open_below(w.folder / "old.log") == 0);
  }
  w.poll(watch, {w.said(attempt(2))});
  CHECK(w.poll(watch).empty());
  w.folder.append("old.log", kOom);
  const auto verdicts = w.poll(watch);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].evidence.front().find("old.log:3:") != std::string::npos);
}

TEST_CASE("log watch: a pattern for the whole file system -> given up, said once") {
  Watched w;
  std::filesystem::create_directory(w.folder / "d");
  for (int i = 0; i < 320; ++i)
    std::filesystem::create_directory_symlink(w.folder / "d",
                                              w.folder / ("d/" + std::to_string(i)));
  w.policy.watch.logs = {w.folder / "d/*/*/*", w.folder / "*.log"};
  LogWatch watch = w.start();
  w.poll(watch);
  REQUIRE(w.notes.size() == 2);
  CHECK(w.notes[0].find("d/*/*/*: not followed: more than 100000 names") != std::string::npos);
  w.folder.append("train.log", "starting\n");
  w.poll(watch);
  CHECK(w.notes == std::vector<std::string>{w.folder / "train.log: followed"});
}
