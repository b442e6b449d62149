// The loop's parts on their own: clock, poison guard, effect lanes, the scheduler's difference.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/loop/effect_pool.hpp"
#include "daemon/loop/poison.hpp"
#include "daemon/loop/scheduler_observer.hpp"
#include "daemon/loop/sd_notify.hpp"
#include "daemon/ports/os_ports.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

TEST_CASE("engine clock: a restart after 90 s -> engine time went on by 90 s") {
  const auto last = std::pair(Instant(1000s), WallTime(5000s));
  EngineClock clock(last, WallTime(5090s), Instant(7s));
  CHECK(clock.at(Instant(7s)) == Instant(1090s));
  CHECK(clock.at(Instant(10s)) == Instant(1093s));
  CHECK(clock.away() == 90s);
}

TEST_CASE("engine clock: a wall clock that went back -> engine time stands, never back") {
  EngineClock clock(std::pair(Instant(1000s), WallTime(5000s)), WallTime(4000s), Instant(7s));
  CHECK(clock.at(Instant(7s)) == Instant(1000s));
  CHECK(clock.away() == 0s);
}

namespace {

// Answers look_up with a job whose number is the length of its name; nothing else is asked of it.
struct ConstantScheduler final : core::Scheduler {
  std::string name;
  core::PortResult<JobId> submit(const core::SubmitRequest&) override { return JobId{}; }
  core::PortResult<std::monostate> cancel(const core::Cancel&) override { return {}; }
  core::PortResult<std::monostate> set_exclusions(const core::SetExclusions&) override {
    return {};
  }
  core::PortResult<std::optional<JobId>> look_up(const Token&) override {
    return name.empty() ? std::nullopt : std::optional(JobId{name.size(), 0});
  }
  Result<core::SchedulerView> observe(const std::vector<RunName>&) override {
    return core::SchedulerView{};
  }
};

core::Input input(const std::string& why) {
  return {RunName("hello"), core::SchedulerBlind{why}, {}};
}

// A process that notes the inputs as being stepped, then ends in this way.
void die_stepping(const std::string& note, const std::vector<core::Input>& inputs, int signal) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    auto guard = PoisonGuard::open(note);
    if (!guard || !guard->before(inputs)) ::_exit(1);
    ::raise(signal);
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == signal);
}

}  // namespace

TEST_CASE(
    "poison: aborts in a batch, then alone -> the guilty input is named, the others are not") {
  Folder folder;
  const std::string note = folder / "stepping.json";
  die_stepping(note, {input("a"), input("b"), input("c")}, SIGABRT);
  {
    auto guard = PoisonGuard::open(note);
    REQUIRE(guard);
    CHECK(guard->careful());
    CHECK_FALSE(guard->is_poisonous(input("b")));
    REQUIRE(guard->before({input("a")}));
    REQUIRE(guard->after());
  }
  die_stepping(note, {input("b")}, SIGSEGV);
  auto guard = PoisonGuard::open(note);
  REQUIRE(guard);
  CHECK(guard->is_poisonous(input("b")));
  CHECK_FALSE(guard->is_poisonous(input("a")));
  CHECK_FALSE(guard->is_poisonous(input("c")));
  REQUIRE(guard->forget(input("b")));
  CHECK_FALSE(guard->is_poisonous(input("b")));
}

TEST_CASE("poison: kill -9 while stepping -> accuses no event") {
  Folder folder;
  for (int i = 0; i < 3; ++i) die_stepping(folder / "stepping.json", {input("a")}, SIGKILL);
  auto guard = PoisonGuard::open(folder / "stepping.json");
  REQUIRE(guard);
  CHECK_FALSE(guard->careful());
}

TEST_CASE("files: a link is not read; a folder with the new name stops no rename") {
  Folder folder;
  OsFiles files;
  folder.write("secret", "hf_token");
  std::filesystem::create_symlink(folder / "secret", folder / "latest");
  CHECK_FALSE(files.read(folder / "latest", 4096));
  folder.write("save", "");
  std::filesystem::create_directories(folder / ".handled-save/x");
  REQUIRE(files.rename(folder / "save", folder / ".handled-save"));
  CHECK_FALSE(std::filesystem::exists(folder / "save"));
  CHECK(std::filesystem::is_directory(folder / ".handled-save/x"));
}

TEST_CASE("effects: of one run in order, of two runs beside each other") {
  std::mutex mutex;
  std::vector<std::string> order;
  std::atomic<bool> release{false};
  std::atomic<int> posted{0};
  {
    EffectPool pool(
        2, [](const core::Intent&) { return core::PerformContext{}; },
        [&](const core::Intent& intent, const core::PerformContext&) {
          while (intent.run.text == "slow" && !release) std::this_thread::yield();
          const std::scoped_lock lock(mutex);
          order.push_back(intent.key.text);
          return std::vector<core::EventBody>{
              core::EffectDone{intent.key, "look_up_token", {}, ""}};
        },
        [&](std::vector<core::Input> results) {
          CHECK(results.size() == 1);
          ++posted;
        });
    const auto start = [&](const char* run, const char* key) {
      pool.start({EffectKey(key), RunName(run), core::LookUpToken{}});
    };
    start("slow", "s1");
    start("slow", "s2");
    start("quick", "q1");
    start("quick", "q2");
    while (posted < 2) std::this_thread::yield();
    release = true;
    while (posted < 4) std::this_thread::yield();
    CHECK(pool.waiting() <= 1);
  }
  CHECK(order == std::vector<std::string>{"q1", "q2", "s1", "s2"});
}

TEST_CASE("scheduler view: only what changed, blindness after three failures, sight once") {
  ViewDiff diff(3);
  const auto run_of = [](const Token&) { return RunName("hello"); };
  core::JobSeen job;
  job.token = Token("hello-1-ab");
  job.job = {7, 1};
  core::SchedulerView view{{job}, {{NodeName("n01"), true, "IDLE", ""}}};
  CHECK(diff.good(view, run_of).size() == 2);
  CHECK(diff.good(view, run_of).empty());
  view.jobs[0].state = core::JobState::Running;
  const auto changed = diff.good(view, run_of);
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].run == RunName("hello"));
  CHECK(std::get<core::JobSeen>(changed[0].body).state == core::JobState::Running);
  CHECK(diff.failed("torn").empty());
  CHECK(diff.failed("torn").empty());
  CHECK(std::holds_alternative<core::SchedulerBlind>(diff.failed("torn").at(0).body));
  CHECK(diff.failed("torn").empty());
  CHECK(std::holds_alternative<core::SchedulerSees>(diff.good(view, run_of).at(0).body));
}

TEST_CASE("several schedulers: blind until each that is asked answers, and no word twice") {
  std::vector<std::string> said;
  CommonSight sight([&said](const std::vector<core::Input>& inputs) {
    for (const core::Input& input : inputs)
      said.emplace_back(std::holds_alternative<core::SchedulerSees>(input.body) ? "sees" : "blind");
  });
  ConstantScheduler commands, rest;
  const std::vector<core::Input> blind{{{}, core::SchedulerBlind{"torn"}, {}}};
  const std::vector<core::Input> sees{{{}, core::SchedulerSees{}, {}}};
  sight.answered(commands, true, {});
  sight.answered(rest, false, {});  // not yet
  sight.answered(rest, false, blind);
  sight.answered(commands, true, {});
  CHECK(said == std::vector<std::string>{"blind"});
  sight.answered(commands, false, blind);
  sight.answered(rest, true, sees);
  CHECK(said == std::vector<std::string>{"blind", "blind"});
  sight.answered(commands, true, sees);
  CHECK(said == std::vector<std::string>{"blind", "blind", "sees"});
  said.clear();
  sight.answered(rest, false, blind);  // its runs are moved to the commands
  sight.left(rest);
  CHECK(said == std::vector<std::string>{"blind"});
  sight.answered(commands, true, {});
  sight.answered(commands, true, {});
  CHECK(said == std::vector<std::string>{"blind", "sees"});
}

TEST_CASE("schedulers: each way in to SLURM is made once, and a run is asked for at its own") {
  std::vector<std::string> made;
  SchedulerRouter router(std::make_unique<ConstantScheduler>(),
                         [&made](const core::SchedulerPlace& place) {
                           made.push_back(place.rest.url + place.cluster);
                           auto slurm = std::make_unique<ConstantScheduler>();
                           slurm->name = "slurm " + made.back();
                           return slurm;
                         });
  core::SchedulerPolicy policy;
  policy.rest.url = "unix:/a";  // left over: no SLURM's
  router.set_place(RunName("here"), core::place_of(policy));
  policy.kind = core::SchedulerKind::Slurm;
  router.set_place(RunName("rest"), core::place_of(policy));
  router.set_place(RunName("rest-2"), core::place_of(policy));
  router.set_place(RunName("by"), {core::SchedulerKind::Slurm, {}, {}});
  router.set_place(RunName("far"), {core::SchedulerKind::Slurm, {}, "b"});
  const auto asked = [&router](const char* token) {
    return std::get<std::optional<JobId>>(router.look_up(Token(token)));
  };
  CHECK(made.empty());
  CHECK(!asked("here-1-ab"));
  CHECK(asked("rest-2-1-ab")->job == std::string("slurm unix:/a").size());
  CHECK(asked("rest-1-ab")->job == std::string("slurm unix:/a").size());
  CHECK(asked("by-1-ab")->job == std::string("slurm ").size());
  CHECK(asked("far-1-ab")->job == std::string("slurm b").size());
  CHECK(made == std::vector<std::string>{"unix:/a", "", "b"});
}

namespace {

// When the questions of the hour after `sign` are asked, seconds after it; each answer takes 200
// ms, and the last question before was at -`before`.
std::vector<double> asked_after_a_sign(const ObserverPace& pace, Duration before, bool sign) {
  const Instant at = Instant{} + 1h;
  LastQuestion last;
  last.asked = at - before;
  last.answered = last.asked + 200ms;
  if (sign) last.sign = at;
  std::vector<double> asked;
  while (last.asked < at + 1h) {
    last.asked = std::max(next_question(pace, last), at);
    last.answered = last.asked + 200ms;
    asked.push_back(to_seconds(last.asked - at));
  }
  return asked;
}

}  // namespace

TEST_CASE("scheduler pace: a sign that a job is ending -> asked at once, then ever more rarely") {
  const ObserverPace pace = pace_of(core::SchedulerKind::Slurm);
  const auto idle = asked_after_a_sign(pace, 30s, false);
  CHECK(idle.front() == doctest::Approx(30.2));
  for (const Duration before : {1s, 20s, 59s}) {
    const auto asked = asked_after_a_sign(pace, before, true);
    CHECK(asked.front() <= 4.0);
    for (double end = 0; end <= 60; ++end) {  // the job ends so many seconds after its sign
      const auto seen = std::lower_bound(asked.begin(), asked.end(), end);
      REQUIRE(seen != asked.end());
      CHECK(*seen - end <= std::max(5.3, 0.26 * end));
    }
    CHECK(asked.size() <= idle.size() + 15);
  }
}

TEST_CASE("scheduler pace: many runs on this host -> asked less often, and at once when kicked") {
  const ObserverPace pace = pace_of(core::SchedulerKind::Local);
  LastQuestion last;
  last.asked = last.answered = Instant{} + 1h;
  last.active = true;
  last.runs = 1;
  CHECK(next_question(pace, last) - last.answered < 510ms);
  last.runs = 1000;
  CHECK(next_question(pace, last) - last.answered == 2500ms);
  last.kicked = true;
  CHECK(next_question(pace, last) == last.answered);
}

TEST_CASE("scheduler pace: failed or slow answers -> a sign changes nothing") {
  const ObserverPace pace = pace_of(core::SchedulerKind::Slurm);
  LastQuestion last;
  last.asked = Instant{} + 1h;
  last.answered = last.asked + 1s;
  last.sign = last.asked - 1s;
  CHECK(next_question(pace, last) == last.answered + 5s);
  last.answered = last.asked + 4s;
  CHECK(next_question(pace, last) == last.answered + 20s);
  last.failures = 2;
  CHECK(next_question(pace, last) == last.answered + 4 * pace.idle);
  last.kicked = true;
  CHECK(next_question(pace, last) == last.asked + pace.apart);
}

TEST_CASE("systemd: no socket -> nothing; half of the watchdog's time") {
  SystemdNotifier none("");
  none.ready("x");
  CHECK_FALSE(none.watchdog_interval());
  CHECK(SystemdNotifier("@abc", 10s).watchdog_interval() == 5s);
}
