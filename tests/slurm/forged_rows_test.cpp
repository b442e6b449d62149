// What a stranger writes into a job's comment is no row of squeue.
#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/job_detail.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::JobState;

namespace {

constexpr const char* kMark = "0badcafe0badcafe\x1f";

// As squeue prints it in the form of queue_format().
std::string marked(std::vector<std::string> fields) {
  std::string out = kMark;
  for (std::size_t i = 0; i < fields.size(); ++i) out += fields[i] + (i < 10 ? "\x1f" : kMark);
  return out + "\n";
}
std::vector<std::string> fields_of_mine(const std::string& state) {
  return {"124",        "123",
          "1",          state,
          "None",       "1700000000",
          "1700072000", "1699990000",
          "n[001-003]", "1000",
          "alice",      "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh",
          "tr11",       "tr11-42-0badcafe"};
}
std::string of_mallory(const std::string& command, const std::string& name,
                       const std::string& comment) {
  return marked({"77", "77", "N/A", "PENDING", "JobHeldUser", "N/A", "N/A", "1699990000", "",
                 "4000", "mallory", command, name, comment});
}

}  // namespace

TEST_CASE("slurm observe: a stranger's comment that looks like rows of ours -> not believed") {
  ScriptedProcesses processes;
  MemoryFiles files;
  processes.answers["scontrol"] = {says("Configuration data as of now\nClusterName = jean\n")};
  processes.answers["sinfo"] = {says("n001\x1fidle\x1fnone\n")};
  SlurmOptions options{"alice", {{"PATH", "/usr/bin"}}, 60s, 45s};
  options.now = [] { return Instant{}; };
  options.row_mark = [] { return std::string(kMark); };
  options.is_member = [](const std::string&, const std::string&) { return true; };
  SlurmScheduler scheduler(processes, files, options);
  scheduler.guard({{RunName("tr11"), {}, "six"}});
  const std::string forged =
      "one\n" + row(fields_of_mine("NODE_FAIL")) + "x\x1fy\n" + row(fields_of_mine("COMPLETED"));
  const std::string answer = marked(fields_of_mine("RUNNING")) + of_mallory("/x.sh", "zzz", forged);
  processes.answers["squeue"] = {says(answer), says("123_1 0 0\n")};
  const auto view = scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  REQUIRE(view->jobs.size() == 1);
  CHECK(view->jobs[0].state == JobState::Running);
  const os::SpawnOptions* asked = nullptr;
  for (const auto& call : processes.calls)
    if (call.argv.front() == "squeue" && asked == nullptr) asked = &call;
  REQUIRE(asked != nullptr);
  CHECK(asked->environment.at("SQUEUE_FORMAT").starts_with(kMark));
  for (const std::string& word : asked->argv)  // which every user can read
    CHECK(word.find("0badcafe") == std::string::npos);
}

TEST_CASE("queue: newlines and separators in names and arguments of others -> no row is torn") {
  // As 22.05.8 prints them.
  const std::string before =
      of_mallory("/home/m/sl.sh", "na\nme\x1fx", "(null)") +
      of_mallory(
          "/home/m/sl.sh arg\nfoo\x1f"
          "bar",
          "sl.sh", "(null)") +
      of_mallory("/home/m/sl.sh", "\n" + row(fields_of_mine("FAILED")), "a\nb");
  const std::string text = before + marked(fields_of_mine("RUNNING")) + before;
  const auto all = parse_queue(text, {}, {}, nullptr, kMark);
  REQUIRE(all);
  CHECK(all->size() == 7);
  CHECK(all->at(0).name == "na\nme\x1fx");
  CHECK(all->at(1).command ==
        "/home/m/sl.sh arg\nfoo\x1f"
        "bar");
  CHECK(all->at(2).comment == "a");
  const auto ours = parse_queue(text, {RunName("tr11")}, {"/gpfs/tr11"}, nullptr, kMark);
  REQUIRE(ours);
  REQUIRE(ours->size() == 1);
  CHECK(ours->at(0).state == JobState::Running);
}

TEST_CASE("queue: a marked answer that is torn -> refused") {
  const std::string mine = marked(fields_of_mine("RUNNING"));
  const auto read = [](const std::string& text) {
    return parse_queue(text, {RunName("tr11")}, {}, nullptr, kMark);
  };
  CHECK(read(mine));
  CHECK_FALSE(read(row(fields_of_mine("RUNNING"))));
  for (std::size_t cut = 1; cut + 1 < mine.size(); ++cut) {  // a wrapper that cuts long lines
    CAPTURE(cut);
    CHECK_FALSE(read(mine.substr(0, cut) + "\n" + mine));
    if (cut >= 17) CHECK_FALSE(read(mine + mine.substr(0, cut) + "\n"));
  }
  CHECK_FALSE(read(mine.substr(0, mine.size() - 1)));
}

TEST_CASE("queue: an unreadable row of the run's name -> refuses the answer if its user counts") {
  std::vector<std::string> odd = fields_of_mine("GELAUFEN");
  odd[10] = "mallory";
  const auto read = [](const std::string& text, const Matters& matters) {
    return parse_queue(text, {RunName("tr11")}, {}, nullptr, kMark, matters);
  };
  const Matters ours = [](const std::string& user) { return user == "alice"; };
  const std::string text = marked(odd) + marked(fields_of_mine("RUNNING"));
  CHECK_FALSE(read(text, {}));
  REQUIRE(read(text, ours));
  CHECK(read(text, ours)->size() == 1);
  CHECK_FALSE(read(marked(fields_of_mine("GELAUFEN")), ours));
}

TEST_CASE("queue: a newline in a name where no mark can be -> the lines belong together") {
  auto odd = fields_of_mine("RUNNING");
  odd[12] = "na\nme";
  const auto rows = parse_queue(row(odd) + row(fields_of_mine("RUNNING")));
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(rows->at(0).name == "na\nme");
  CHECK(rows->at(1).name == "tr11");
}

TEST_CASE("scontrol: a newline in a name or an argument -> the record goes on") {
  const auto records = parse_job_details(
      "JobId=9924986 JobName=na\nme\x1fx UserId=mallory(1003) JobState=PENDING Restarts=0 "
      "ExitCode=0:0 Command=/home/m/sl.sh arg\nJobState=FAILED foo WorkDir=/tmp StdOut=/dev/null \n"
      "JobId=9924989 ArrayJobId=9924989 ArrayTaskId=1-2 JobName=tr11 JobState=RUNNING "
      "Comment=a\nb  StdOut=/r/o\n");
  REQUIRE(records);
  REQUIRE(records->size() == 2);
  CHECK(records->at(0).name == "na");
  CHECK(records->at(0).state == JobState::Pending);
  CHECK(records->at(1).id.job == 9924989);
  CHECK(records->at(1).output == "/r/o");
}
