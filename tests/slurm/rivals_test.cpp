// Rivals: somebody else's live job on a run's name or folders.
#include "slurm/rivals.hpp"

#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;

namespace {

const core::RunGrounds kGrounds{
    RunName("tr11"), {"/gpfs/tr11/run/batch/", "/gpfs/tr11/run/checkpoints/"}, "six"};

std::string job(const std::string& user, const std::string& state, const std::string& name,
                const std::string& command = "/home/x/a.slurm", const std::string& comment = "",
                const std::string& id = "77", const std::string& task = "N/A") {
  return row(
      {id, id, task, state, "None", "1", "2", "1", "", "1000", user, command, name, comment});
}
std::vector<std::string> rivals(const std::string& text, const std::set<std::uint64_t>& ours = {}) {
  const auto rows = parse_queue(text, {RunName("tr11")}, kGrounds.folders);
  REQUIRE(rows);
  const auto may_be = [](const std::string& user, const std::string& group) {
    return user == "alice" || (user == "bob" && group == "six");
  };
  return find_rivals(*rows, {kGrounds}, "alice", ours, may_be).at(RunName("tr11"));
}

// alice's scheduler, whose squeue answers so; its run's group has bob and these other members.
struct Guarded {
  ScriptedProcesses processes;
  MemoryFiles files;
  Instant now{};
  std::optional<SlurmScheduler> scheduler;
  Guarded(std::deque<Result<os::CommandOutput>> queue, std::vector<std::string> members) {
    SlurmOptions options{"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [this] { return now; }};
    options.is_member = [](const std::string& user, const std::string&) { return user == "bob"; };
    options.members = [members](const std::string&) { return members; };
    scheduler.emplace(processes, files, options);
    processes.answers["squeue"] = std::move(queue);
    processes.answers["scontrol"] = {says("x\nClusterName = jean\n")};
    processes.answers["sinfo"] = {says("n001\x1fidle\x1fnone\n")};
    scheduler->guard({kGrounds});
  }
  // Whose jobs the call of squeue asked for; "" = everybody's.
  [[nodiscard]] std::string users(std::size_t call) const {
    const auto& argv = processes.calls.at(call).argv;
    const auto at = std::find(argv.begin(), argv.end(), "-u");
    return at == argv.end() ? "" : *(at + 1);
  }
};

os::CommandOutput too_long() {
  os::CommandOutput cut;
  cut.truncated = true;
  return cut;
}

}  // namespace

TEST_CASE("rivals: a live job of the name that is none of ours -> reported, also our own by hand") {
  CHECK(rivals(job("bob", "PENDING", "tr11")) ==
        std::vector<std::string>{"job 77 of bob (PENDING): it has the run's name"});
  CHECK(rivals(job("alice", "RUNNING", "tr11")).size() == 1);
  CHECK(rivals(job("bob", "COMPLETING", "tr11")).size() == 1);
}

TEST_CASE(
    "rivals: another stokerd of a colleague on the same folders -> reported, under any name") {
  CHECK(rivals(job("bob", "RUNNING", "tr11b", "/gpfs/tr11/run/batch/tr11b-1-00000000.sh",
                   "tr11b-1-00000000")) ==
        std::vector<std::string>{
            "job 77 of bob (RUNNING): its script lies in /gpfs/tr11/run/batch/"});
  CHECK(rivals(job("bob", "RUNNING", "x", "/gpfs/tr11/run/checkpoints/go.sh")).size() == 1);
  CHECK(rivals(job("bob", "RUNNING", "tr11", "/x.sh", "tr11-42-0badcafe")).size() == 1);
}

TEST_CASE("rivals: a job of the name by a user outside the run's group -> not in the way") {
  CHECK(rivals(job("carol", "PENDING", "tr11")).empty());
}

TEST_CASE("rivals: our own jobs, ended ones, other names and folders -> none") {
  CHECK(rivals(job("alice", "RUNNING", "tr11", "/x.sh", "tr11-42-0badcafe")).empty());
  CHECK(rivals(job("alice", "RUNNING", "tr11", "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh",
                   "charged: six"))
            .empty());
  CHECK(rivals(job("alice", "RUNNING", "tr11", "/x.sh", "charged: six"), {77}).empty());
  CHECK(rivals(job("bob", "COMPLETED", "tr11")).empty());
  CHECK(rivals(job("bob", "RUNNING", "tr12", "/gpfs/tr11/run/other.sh")).empty());
  CHECK(rivals("").empty());
}

TEST_CASE("rivals: the tasks of an array -> one line, of the one that runs") {
  CHECK(rivals(job("bob", "RUNNING", "tr11", "/x", "", "77", "1") +
               job("bob", "PENDING", "tr11", "/x", "", "77", "2")) ==
        std::vector<std::string>{"job 77 of bob (RUNNING): it has the run's name"});
}

TEST_CASE("rivals: a group's member in any way -> seen in one squeue, refuses a submission") {
  ScriptedProcesses processes;
  MemoryFiles files;
  SlurmOptions options{"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [] { return Instant{}; }};
  int asked = 0;
  options.is_member = [&asked](const std::string& user, const std::string& group) {
    ++asked;
    CHECK(group == "six");
    return user == "bob";  // by his primary group: no list has him
  };
  SlurmScheduler scheduler(processes, files, options);
  processes.answers["squeue"] = {
      says(job("bob", "RUNNING", "tr11") + job("mallory", "RUNNING", "tr11", "/x", "", "78"))};
  processes.answers["scontrol"] = {says("x\nClusterName = jean\n")};
  processes.answers["sinfo"] = {says("n001\x1fidle\x1fnone\n")};
  processes.answers["sbatch"] = {says("123\n")};
  scheduler.guard({kGrounds});
  const auto view = scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  CHECK(view->jobs.empty());
  CHECK(view->rivals.at(RunName("tr11")).size() == 1);
  const auto& argv = processes.calls.front().argv;
  CHECK(std::find(argv.begin(), argv.end(), "-u") == argv.end());  // everybody's
  REQUIRE(scheduler.observe({RunName("tr11")}));
  CHECK(asked == 2);  // each name once, not at every look
  core::SubmitRequest request = example_request();
  request.policy.group = "six";
  const auto refused = scheduler.submit(request);
  CHECK(std::get<core::PortError>(refused).certainty == core::Certainty::Definite);
  CHECK(processes.count("sbatch") == 0);
}

TEST_CASE("rivals: a queue that is too long to be read -> the members who are listed") {
  Guarded g({too_long(), says(job("bob", "RUNNING", "tr11"))}, {"bob", "carol"});
  const auto view = g.scheduler->observe({RunName("tr11")});
  REQUIRE(view);
  CHECK(view->rivals.at(RunName("tr11")).size() == 1);
  CHECK(g.users(1) == "alice,bob,carol");
}

TEST_CASE("rivals: a member's jobs too are more than is read -> ours alone, for an hour") {
  Guarded g({too_long(), too_long(), says(job("alice", "PENDING", "tr11"))}, {"bob"});
  const auto view = g.scheduler->observe({RunName("tr11")});
  REQUIRE(view);
  CHECK(view->rivals.at(RunName("tr11")).size() == 1);
  CHECK(g.users(0).empty());
  CHECK(g.users(1) == "alice,bob");
  CHECK(g.users(2) == "alice");
  std::size_t before = g.processes.calls.size();
  REQUIRE(g.scheduler->observe({RunName("tr11")}));
  CHECK(g.users(before) == "alice");
  before = g.processes.calls.size();
  g.now += 61min;
  REQUIRE(g.scheduler->observe({RunName("tr11")}));
  CHECK(g.users(before).empty());
}
