// Recovery as a property: a run's history in a real journal and real agents' files; the journal is
// then cut, zeroed or flipped at a page, beside every kind of backup and of cursor. The next daemon
// reads what is left. No line of an agent is lost, and the finished run ends finished, with no job
// left that could run.
// 200 cases; 10,000 with STOKER_LONG.
#include <cstdlib>
#include <deque>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <set>

#include "common/os/files.hpp"
#include "core/engine/engine.hpp"
#include "core/state.hpp"
#include "daemon/journal/recovery.hpp"
#include "daemon/journal/restore.hpp"
#include "sim/ports.hpp"
#include "tests/daemon/fixtures.hpp"
#include "watch/run_watcher.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

const RunName kRun("demo");
constexpr WallTime kNow(1'800'000'000s);

// Answers like a scheduler that has forgotten the jobs that are over.
class Scheduler final : public sim::SimScheduler {
 public:
  bool forgets = false;
  core::PortResult<std::optional<JobId>> look_up(const Token& token) override {
    return forgets ? std::optional<JobId>() : SimScheduler::look_up(token);
  }
};

struct Runner final : core::EffectRunner {
  std::deque<core::Intent> waiting;
  void start(const core::Intent& intent) override { waiting.push_back(intent); }
};

// What outlives a daemon: files, the scheduler, time.
struct World {
  sim::SimFiles files;
  Scheduler scheduler;
  sim::SimAlerts alerts;
  sim::SimClock clock;
};

// A daemon on a journal, with a watcher on the run's real files.
class Life {
 public:
  Life(World& world, std::unique_ptr<SqliteJournal> journal, const core::RunPolicy& policy,
       std::uint32_t epoch)
      : world_(world), journal_(std::move(journal)), policy_(policy) {
    core::DaemonStarted started;
    started.epoch = Epoch(epoch);
    started.away = epoch > 1 ? Duration(1min) : Duration(0);
    started.build = "build";
    begun_ = engine_.start(started);
    const auto cursors = journal_->cursors();
    watcher_.emplace(watch::RunWatchOptions{policy_, false},
                     cursors ? *cursors : std::vector<core::Cursor>());
  }

  Status begun_ = ok();
  std::set<std::string> fed;  // lines of agents, as events
  bool known() const { return engine_.state().runs.contains(kRun); }
  const core::RunState& run() const { return engine_.state().runs.at(kRun); }
  SqliteJournal& journal() { return *journal_; }

  void feed(core::EventBody body, const RunName& name = kRun) {
    feed({{name, std::move(body), {}}});
  }
  void read_files() {
    for (int times = 0; times < 4; ++times) feed(watcher_->poll(world_.clock.now(), kNow));
  }
  void perform_all() {
    while (!runner_.waiting.empty()) {
      const core::Intent intent = runner_.waiting.front();
      runner_.waiting.pop_front();
      core::PerformContext context;
      if (known()) context.policy = run().policy;
      core::Ports ports{world_.clock, world_.scheduler, world_.files, world_.alerts};
      std::vector<core::Input> results;
      for (auto& result : core::perform(intent, context, ports))
        results.push_back({intent.run, std::move(result), {}});
      feed(std::move(results));
    }
  }
  void wait(Duration how_long, Duration step = 2s) {
    for (Duration waited{}; waited < how_long; waited += step) {
      world_.clock.move_to(world_.clock.now() + step);
      feed(core::Tick{}, {});
      perform_all();
    }
  }

 private:
  void feed(std::vector<core::Input> inputs) {
    for (const core::Input& input : inputs)
      if (const auto* said = std::get_if<core::AgentSaid>(&input.body);
          said && said->from == "lead")
        fed.insert(to_json_text(said->event));
    const Status done = engine_.feed(std::move(inputs));
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
  }

  World& world_;
  std::unique_ptr<SqliteJournal> journal_;
  core::RunPolicy policy_;
  Runner runner_;
  core::Engine engine_{*journal_, runner_, world_.clock, "build"};
  std::optional<watch::RunWatcher> watcher_;
};

// The history: a crash inside the first job, which then ends; the second job finishes the training.
class History {
 public:
  History() {
    policy_.run = kRun;
    policy_.directory = folder_ / "run";
    policy_.train.command = {"train.sh"};
    policy_.scheduler.array_tasks = 1;
    std::filesystem::create_directories(policy_.directory);
    auto opened = SqliteJournal::open({journal_path(), false, {}});
    REQUIRE(opened);
    Life life(world_, std::move(*opened), policy_, 1);
    REQUIRE(life.begun_);
    life.feed(core::RunAdded{policy_, "alice"});
    life.perform_all();
    play_first_job(life);
    copy_backup(life, "early.db");
    play_second_job(life);
    life.wait(60s);
    REQUIRE(core::state_name(life.run().training) == std::string("finished"));
    said = life.fed;
    restarts = life.run().recovery.budget.restarts;
    rows = life.journal().last_sequence().value;
  }

  [[nodiscard]] std::string journal_path() const { return folder_ / "journal.db"; }
  [[nodiscard]] std::string backup(const char* name) const { return folder_ / name; }
  [[nodiscard]] const core::RunPolicy& policy() const { return policy_; }
  [[nodiscard]] const World& world() const { return world_; }

  std::set<std::string> said;
  std::uint32_t restarts = 0;
  std::uint64_t rows = 0;

 private:
  void say(Life& life, std::uint32_t generation, wire::AgentBody body) {
    world_.clock.move_to(world_.clock.now() + 1s);
    wire::AgentEvent event;
    event.at = Instant(std::chrono::seconds(++lines_));
    event.body = std::move(body);
    const std::string name = "run/" + wire::generation_name(Generation(generation));
    std::filesystem::create_directories(folder_ / name);
    folder_.append(name + "/lead.jsonl", wire::format_event_line(event));
    life.read_files();
    life.perform_all();
  }
  void begin(Life& life, std::uint32_t generation, std::uint64_t iteration) {
    core::JobSeen runs;
    runs.token = world_.scheduler.token_of(generation);
    runs.job = {generation, 1};
    runs.state = core::JobState::Running;
    runs.nodes = std::vector<NodeName>{NodeName("n01")};
    life.feed(runs);
    wire::GenerationStarted started;
    started.generation = Generation(generation);
    started.parent = Generation(generation - 1);
    started.iteration = Iteration(iteration);
    started.token = runs.token;
    started.job = runs.job;
    started.order = OrderNumber(generation);
    started.nodes = {NodeName("n01")};
    say(life, generation, started);
    attempt(life, generation, 1, iteration);
  }
  void attempt(Life& life, std::uint32_t generation, std::uint32_t number,
               std::uint64_t iteration) {
    wire::AttemptStarted started;
    started.attempt = Attempt(number);
    started.nodes = {NodeName("n01")};
    started.world_size = 2;
    started.iteration = Iteration(iteration);
    say(life, generation, started);
    wire::PhaseEdge iterates;
    iterates.attempt = started.attempt;
    iterates.phase = wire::Phase::Iteration;
    iterates.iteration = Iteration(iteration);
    say(life, generation, iterates);
    for (std::uint64_t save = 1; save <= 5; ++save) {
      wire::CheckpointSaved saved;
      saved.iteration = Iteration(iteration + save * 10);
      saved.checkpoint = "step";
      say(life, generation, saved);
    }
  }
  void end(Life& life, std::uint32_t generation, std::uint32_t number, int code) {
    wire::AttemptEnded ended;
    ended.attempt = Attempt(number);
    ended.all_zero = code == 0;
    ended.worst_code = code;
    ended.first_node = NodeName("n01");
    say(life, generation, ended);
    wire::Goodbye goodbye;
    goodbye.node = NodeName("n01");
    goodbye.lead = true;
    goodbye.exit_code = code;
    say(life, generation, goodbye);
    core::JobSeen over;
    over.token = world_.scheduler.token_of(generation);
    over.job = {generation, 1};
    over.state = code == 0 ? core::JobState::Completed : core::JobState::NodeFail;
    life.feed(over);
    life.perform_all();
    life.wait(20s);
  }
  void play_first_job(Life& life) {
    begin(life, 1, 0);
    wire::RankExited dies;
    dies.attempt = Attempt(1);
    dies.node = NodeName("n01");
    dies.signal = 9;
    say(life, 1, dies);
    attempt(life, 1, 2, 50);
    copy_backup(life, "middle.db");
    attempt(life, 1, 3, 100);
    end(life, 1, 3, 1);
  }
  void play_second_job(Life& life) {
    begin(life, 2, 150);
    attempt(life, 2, 2, 200);
    copy_backup(life, "late.db");
    end(life, 2, 2, 0);
  }
  void copy_backup(Life& life, const char* name) {
    REQUIRE(life.journal().copy_to(folder_ / name));
  }

  Folder folder_;
  core::RunPolicy policy_;
  World world_;
  std::uint64_t lines_ = 0;
};

// The nth case: which damage at which page, which backups, which cursors.
struct Case {
  std::uint64_t number;
  std::string text;
};

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::trunc | std::ios::binary) << bytes;
}

void change(const std::string& path, const char* sql) {
  auto db = Database::open(path, OpenMode::ReadWrite);
  REQUIRE(db);
  REQUIRE(db->execute(sql));
  REQUIRE(db->execute("PRAGMA wal_checkpoint(TRUNCATE)"));
}

// Damages the pages of a file; every page and every way has its turn.
std::string damage(std::string& bytes, std::uint64_t turn, std::mt19937_64& random) {
  const std::size_t pages = bytes.size() / 4096;
  const std::size_t page = turn % pages;
  switch (turn / pages % 5) {
    case 0: bytes.resize(page * 4096); return fmt::format("cut before page {}", page);
    case 1:
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(page * 4096), 4096, '\0');
      return fmt::format("page {} zeroed", page);
    case 2: {
      const std::size_t at = page * 4096 + random() % 4096;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      return fmt::format("a bit of byte {} flipped", at);
    }
    case 3:
      bytes.resize(page * 4096 + random() % 4096);
      return fmt::format("torn in page {}", page);
    default: bytes.clear(); return "no byte left";
  }
}

std::string prepare(const History& history, const std::string& path, std::uint64_t number,
                    std::vector<std::string>& backups) {
  std::mt19937_64 random(number);
  auto bytes = os::read_file(history.journal_path());
  REQUIRE(bytes);
  write_bytes(path, *bytes);
  std::string text;
  switch (random() % 6) {  // cursors and the state beside the pages
    case 0:
      change(path, "UPDATE cursors SET position = position + 1");
      text = "cursors wrong, ";
      break;
    case 1:
      change(path, "UPDATE state SET bytes = substr(bytes, 2)");
      text = "state wrong, ";
      break;
    case 2:
      change(path, "UPDATE run_states SET bytes = substr(bytes, 2)");
      text = "a run's state wrong, ";
      break;
    case 3:
      change(path, "DELETE FROM run_states");
      text = "a run's state gone, ";
      break;
    default: break;
  }
  bytes = os::read_file(path);
  text += damage(*bytes, number, random);
  write_bytes(path, *bytes);
  const std::vector<std::vector<const char*>> kinds{{},
                                                    {"middle.db"},
                                                    {"early.db", "middle.db"},
                                                    {"late.db"},
                                                    {"late.db", "early.db", "middle.db"}};
  for (const char* name : kinds[random() % kinds.size()]) {
    backups.push_back(fmt::format("{}.{}", path, name));
    auto copy = os::read_file(history.backup(name));
    REQUIRE(copy);
    text += fmt::format(", {}", name);
    if (random() % 4 == 0) text += " (" + damage(*copy, random(), random) + ")";
    write_bytes(backups.back(), *copy);
  }
  return text;
}

// What the next daemon makes of it; the sentence of a refusal.
std::string live_on(const History& history, const std::string& path, std::uint64_t number,
                    const std::vector<std::string>& backups) {
  auto opened = open_or_restore({path, false, {}}, backups, kNow);
  if (!opened) return opened.error().message();
  if (opened->journal->last_sequence() == Sequence{}) return "nothing is left";
  World world = history.world();
  world.scheduler.forgets = number % 2 == 0;
  Life life(world, std::move(opened->journal), history.policy(), 2);
  if (!life.begun_) return life.begun_.error().message();
  if (!life.known()) return "the run is not known any more";
  // Lines that the journal still holds as rows, or that its state was made of, are not lost.
  const std::uint64_t held = life.journal().last_sequence().value;
  life.perform_all();
  life.read_files();
  life.perform_all();
  life.wait(5min, 15s);
  CHECK(core::state_name(life.run().training) == std::string("finished"));
  // What it submits while it reads on is taken back: nothing is left that could run.
  for (const auto& [token, submission] : life.run().jobs.supply)
    CHECK((!submission.live() || submission.cancel_asked || submission.rest_cancelled));
  CHECK(life.run().newest == Generation(2));
  CHECK(life.run().health.checkpoint.iteration == Iteration(250));
  if (held < history.rows) CHECK((held > history.rows / 2 || !life.fed.empty()));
  CHECK(core::state_name(life.run().training) == std::string("finished"));
  return "";
}

}  // namespace

TEST_CASE("restore: a journal damaged anywhere -> no line lost, no finished run goes on") {
  const History history;
  const std::uint64_t cases = std::getenv("STOKER_LONG") != nullptr ? 10'000 : 200;
  std::uint64_t refused = 0;
  for (std::uint64_t number = 0; number < cases; ++number) {
    Folder folder;
    const std::string path = folder / "journal.db";
    std::vector<std::string> backups;
    // Few cases are spread over all pages and ways.
    const std::uint64_t turn = cases < 10'000 ? number * 7 : number;
    const std::string text = prepare(history, path, turn, backups);
    CAPTURE(turn);
    CAPTURE(text);
    const std::string why = live_on(history, path, turn, backups);
    CAPTURE(why);
    if (!why.empty()) ++refused;
    // With an intact backup there is always something to go on from.
    const bool intact = text.find(".db (") == std::string::npos && !backups.empty();
    CHECK((why.empty() || !intact));
  }
  MESSAGE(refused << " of " << cases << " journals were refused");
  CHECK(refused < cases / 4);
}
