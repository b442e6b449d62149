// An hour of fifty runs in virtual time: the scheduler class itself, a SLURM that is played, and
// the pace of the daemon's observer. Every squeue, scontrol, sinfo and sacct counts.
#include <algorithm>
#include <charconv>
#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;

namespace {

struct PlayedJob {
  std::uint64_t id = 0;
  std::string token, name;
  std::string state = "PENDING";
};

// Commands over a list of plain jobs.
class PlayedSlurm : public core::Processes {
 public:
  explicit PlayedSlurm(MemoryFiles& files) : files_(files) {}
  std::vector<PlayedJob> jobs;
  std::map<std::string, std::size_t> calls;
  bool down = false;

  Result<os::CommandOutput> run(const os::SpawnOptions& options, Duration) override {
    const auto& argv = options.argv;
    ++calls[argv.front()];
    if (down) return says("", argv.front() + ": error: Unable to contact slurm controller\n", 1);
    if (argv.front() == "sinfo") return says("n001\x1fidle\x1fnone\n");
    if (argv.front() == "squeue") return squeue(argv);
    if (argv.front() == "scontrol") return scontrol(argv);
    if (argv.front() == "sbatch") return sbatch(argv.back());
    return says("");
  }
  [[nodiscard]] std::size_t questions() const {
    std::size_t n = 0;
    for (const char* name : {"squeue", "scontrol", "sinfo", "sacct"})
      if (const auto found = calls.find(name); found != calls.end()) n += found->second;
    return n;
  }

 private:
  static std::string after(const std::vector<std::string>& argv, const char* option) {
    const auto at = std::find(argv.begin(), argv.end(), option);
    return at == argv.end() ? "" : *(at + 1);
  }
  Result<os::CommandOutput> squeue(const std::vector<std::string>& argv) {
    std::string out;
    for (const PlayedJob& job : jobs) {
      const std::string id = std::to_string(job.id);
      if (!after(argv, "-O").empty()) {
        const std::string gap(64 - id.size(), ' ');
        out += id + gap + "0               0               \n";
      } else {
        out += row({id, id, "N/A", job.state, "None", "1700000000", "1700072000", "1699990000",
                    job.state == "RUNNING" ? "n001" : "", "1000", "alice",
                    "/r/" + job.name + "/batch/" + job.token + ".sh", job.name, job.token});
      }
    }
    return says(out);
  }
  Result<os::CommandOutput> scontrol(const std::vector<std::string>& argv) {
    if (argv.back() == "config") return says("x\nClusterName = jean\n");
    std::string out;
    for (const PlayedJob& job : jobs)
      if (argv.back() == "-o" || argv.back() == std::to_string(job.id))
        out += "JobId=" + std::to_string(job.id) + " JobName=" + job.name +
               " JobState=" + job.state + " Command=/r/" + job.name + "/batch/" + job.token +
               ".sh\n";
    if (!out.empty() || argv.back() == "-o") return says(out);
    return says("", "slurm_load_jobs error: Invalid job id specified\n", 1);
  }
  Result<os::CommandOutput> sbatch(const std::string& script) {
    const auto slash = script.rfind('/');
    const std::string token = script.substr(slash + 1, script.size() - slash - 4);
    jobs.push_back({++last_, token, run_of(Token(token)).text, "PENDING"});
    return says(std::to_string(last_) + "\n");
  }
  MemoryFiles& files_;
  std::uint64_t last_ = 1000;
};

// What the daemon's observer waits, with `slurm` = 15 s: 60 s while nothing is on its way.
Duration pause_of(bool active, int failures) {
  Duration pause = active ? 15s : 60s;
  for (int i = 0; i < failures && pause < 300s; ++i) pause *= 2;
  return std::min<Duration>(pause, 300s);
}

struct Hour {
  MemoryFiles files;
  PlayedSlurm slurm{files};
  Instant now{};
  SlurmScheduler scheduler{
      slurm, files, {"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [this] { return now; }}};
  std::vector<RunName> runs;
  std::map<RunName, int> orders;
  std::size_t looks = 0, ends_seen = 0;
  int failures = 0;
  std::set<Token> ended;

  void submit(const RunName& run) {
    core::SubmitRequest request = example_request();
    request.policy.run = run;
    request.policy.directory = "/r/" + run.text;
    request.submit.token = Token(run.text + "-" + std::to_string(++orders[run]) + "-0badcafe");
    request.submit.array_tasks = 1;
    REQUIRE(std::holds_alternative<JobId>(scheduler.submit(request)));
  }
  // One look, and what follows from it: a job that has ended is replaced.
  void look() {
    ++looks;
    const auto view = scheduler.observe(runs);
    bool active = false;
    failures = view ? 0 : failures + 1;
    std::vector<RunName> over;
    if (view)
      for (const core::JobSeen& job : view->jobs) {
        active = active || job.state == core::JobState::Pending;
        if (core::is_terminal(job.state) && ended.insert(job.token).second)
          over.push_back(run_of(job.token));
      }
    for (const RunName& run : over) submit(run), ++ends_seen, active = true;
    now += std::max(pause_of(active, failures), scheduler.rest());
  }
};

}  // namespace

TEST_CASE("slurm rate: an hour of 50 runs, jobs end and follow, SLURM away for a while -> <= 120") {
  Hour hour;
  for (int i = 0; i < 50; ++i) hour.runs.emplace_back("tr" + std::to_string(i));
  std::uint64_t id = 0;
  for (const RunName& run : hour.runs) {  // they train already
    ++hour.orders[run];
    hour.slurm.jobs.push_back({++id, run.text + "-1-0badcafe", run.text, "RUNNING"});
  }
  std::size_t turn = 0;
  for (const Instant end = hour.now + 1h; hour.now < end; ++turn) {
    const Duration passed = hour.now - Instant{};
    hour.slurm.down = passed > 30min && passed < 35min;
    for (PlayedJob& job : hour.slurm.jobs)
      if (job.state == "PENDING") job.state = "RUNNING";
    if (turn % 4 == 1) hour.slurm.jobs.at((turn * 7) % 50).state = "FAILED";
    hour.look();
  }
  MESSAGE(hour.slurm.questions() << " questions, " << hour.looks << " looks, " << hour.ends_seen
                                 << " ends");
  CHECK(hour.slurm.questions() <= 120);
  CHECK(hour.looks >= 40);
  CHECK(hour.ends_seen >= 8);
  CHECK(hour.slurm.calls["squeue"] >= hour.looks);
}

TEST_CASE("slurm rate: 50 runs are asked for in one squeue") {
  Hour hour;
  for (int i = 0; i < 50; ++i) {
    hour.runs.emplace_back("tr" + std::to_string(i));
    hour.slurm.jobs.push_back({1u + static_cast<std::uint64_t>(i),
                               hour.runs.back().text + "-1-0badcafe", hour.runs.back().text,
                               "RUNNING"});
  }
  hour.look();
  const std::size_t first = hour.slurm.calls["squeue"];
  for (int i = 0; i < 5; ++i) hour.look();
  CHECK(hour.slurm.calls["squeue"] == first + 5);
}
