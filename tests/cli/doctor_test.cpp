// What `stoker doctor` shows of running agents.
#include "cli/doctor/site_checks.hpp"
#include "site.hpp"
#include "wire/agent_event.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

std::string line(wire::AgentBody body) {
  wire::AgentEvent event;
  event.body = std::move(body);
  return wire::format_event_line(event);
}

}  // namespace

TEST_CASE("doctor: a run under way -> what each node's agent can learn from, late output") {
  const Site site;
  site.publish(training_status());
  wire::HealthSources n01{
      NodeName("n01"), {{"NVML", true, "8 GPUs"}, {"kernel log", true, "/dev/kmsg"}}, {}};
  wire::HealthSources n02{
      NodeName("n02"), {{"NVML", true, "8 GPUs"}, {"kernel log", false, "not for this user"}}, {}};
  const std::string path = site.directory() + "/gen-000002/lead.jsonl";
  site.write(path, line(n01) + "{\"torn health_sources\n" + line(n02) +
                       line(wire::Notice{NodeName("n01"), "output of rank 3 is block-buffered"}));
  const std::string told = site.stoker({"doctor"}).out;
  CHECK(told.find("hello/n01        NVML: 8 GPUs; kernel log: /dev/kmsg\n") != std::string::npos);
  CHECK(told.find("note  hello/n02") != std::string::npos);
  CHECK(told.find("kernel log: no, not for this user") != std::string::npos);
  CHECK(told.find("output of rank 3 is block-buffered") != std::string::npos);
}

TEST_CASE("doctor: a finished run -> nothing of its nodes") {
  const Site site;
  auto status = training_status();
  status.state = "finished";
  site.publish(status);
  site.write(site.directory() + "/gen-000002/lead.jsonl",
             line(wire::HealthSources{NodeName("n01"), {{"NVML", true, "8 GPUs"}}, {}}));
  CHECK(site.stoker({"doctor"}).out.find("hello/n01") == std::string::npos);
}

TEST_CASE("doctor: scontrol show config of 22.05.8 -> version, arrays, memory, clock") {
  const std::string config =
      "Configuration data as of 2026-11-22T07:20:02\n"
      "AccountingStorageType   = accounting_storage/none\n"
      "ClusterName             = jean\n"
      "MaxArraySize            = 1001\n"
      "MinJobAge               = 60 sec\n"
      "SLURM_VERSION           = 22.05.8\n";
  std::tm time{};
  time.tm_year = 126;
  time.tm_mon = 10;
  time.tm_mday = 22;
  time.tm_hour = 7;
  time.tm_min = 20;
  time.tm_isdst = -1;
  const std::int64_t now = ::mktime(&time);
  const auto findings = judge_slurm_config(config, now);
  REQUIRE(findings.size() == 5);
  CHECK(findings[0].found == "22.05.8, cluster jean");
  CHECK(findings[1].found == "up to 1000 tasks in scheduler.array.tasks");
  CHECK(findings[2].health == Health::Note);
  CHECK(findings[3].found == "none; stoker does not need it");
  CHECK(findings[4].check == "rights");
  const auto closed =
      judge_slurm_config(config + "MaxJobCount = 10\nPrivateData = jobs,nodes\n", now);
  REQUIRE(closed.size() == 7);
  CHECK(closed[5].found.find("at most 10 jobs") != std::string::npos);
  CHECK(closed[6].health == Health::Note);
  const auto skewed = judge_slurm_config(config, now + 300);
  REQUIRE(skewed.size() == 6);
  CHECK(skewed[5].health == Health::Bad);
  CHECK(skewed[5].found == "slurmctld's clock differs by -298 s");
  CHECK(judge_slurm_config("MaxArraySize = 1\n", now)[1].health == Health::Note);
}

TEST_CASE("doctor: what starts stokerd again, as far as this user may") {
  os::CommandOutput none;
  none.status.code = 1;
  none.err = "no crontab for alice\n";
  os::CommandOutput barred;
  barred.status.code = 1;
  barred.err = "You (alice) are not allowed to use this program (crontab)\n";
  os::CommandOutput ours;
  ours.out = "*/5 * * * * /opt/stoker/bin/stokerd --once\n";
  const std::string start = "/opt/stoker/bin/stokerd --state /home/a%b";
  CHECK(judge_keeper(true, none, start).health == Health::Good);
  CHECK(judge_keeper(false, ours, start).health == Health::Good);
  const Finding line = judge_keeper(false, none, start);
  CHECK(line.health == Health::Note);
  CHECK(line.fix.find("@reboot /opt/stoker/bin/stokerd --state /home/a\\%b ") != std::string::npos);
  CHECK(line.fix.find("*/5 * * * * /opt/stoker/bin/stokerd --state /home/a\\%b --once") !=
        std::string::npos);
  for (const auto& crontab :
       {std::optional<os::CommandOutput>(barred), std::optional<os::CommandOutput>()})
    CHECK(judge_keeper(false, crontab, start).fix.find("stoker-cron.slurm") != std::string::npos);
}

TEST_CASE("doctor: what the accounts say of a user -> rights and limits") {
  const auto user = judge_rights("None|physics|||\nNone|biology|gpu|4|10\n");
  REQUIRE(user.size() == 2);
  CHECK(user[0].found.find("left to the administrators") != std::string::npos);
  CHECK(
      user[1].found.starts_with("physics: any number at once, any number submitted; biology in "
                                "gpu: 4 at once, 10 submitted"));
  CHECK(judge_rights("Administrator|physics|||\n")[0].found.find("recover.exclude.drain") !=
        std::string::npos);
  CHECK(judge_rights("").front().health == Health::Bad);
}

TEST_CASE("doctor: partitions of scontrol show partition -o -> limits, what is down, none up") {
  const std::string main =
      "PartitionName=main AllowGroups=ALL Default=YES MaxNodes=UNLIMITED MaxTime=UNLIMITED "
      "MinNodes=0 Nodes=n[01-08] State=UP TotalCPUs=32 TotalNodes=8\n";
  const std::string down =
      "PartitionName=old Default=NO MaxNodes=2 MaxTime=1-00:00:00 State=DOWN TotalNodes=2\n";
  const auto findings = judge_partitions(main + down);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].found == "main* (8 nodes, at most all a job and any time)");
  CHECK(findings[1].check == "partition old");
  CHECK(findings[1].health == Health::Note);
  CHECK(judge_partitions(down).front().health == Health::Bad);
  CHECK(judge_partitions("nonsense\n").front().health == Health::Bad);
}

TEST_CASE("doctor: sbatch --test-only -> when it would start, or what to change") {
  os::CommandOutput answer;
  answer.err = "sbatch: Job 863244 to start at 2026-11-22T14:22:22 using 2 processors\n";
  CHECK(judge_test_only(answer).health == Health::Good);
  answer.status.code = 1;
  answer.err = "allocation failure: Requested node configuration is not available\n";
  CHECK(judge_test_only(answer).health == Health::Bad);
  CHECK(judge_test_only(answer).fix.find("scheduler.nodes") != std::string::npos);
  answer.err = "allocation failure: something new\n";
  CHECK(judge_test_only(answer).fix.find("--dry-run") != std::string::npos);
}

TEST_CASE("doctor: no daemon -> a note, and bad where a run has not ended") {
  CHECK(judge_absence({}, "stokerd").health == Health::Note);
  CHECK(judge_absence({"tr1"}, "stokerd").found == "is not running, so nothing observes tr1");
  CHECK(judge_absence({"a", "b"}, "").found == "is not running, so nothing observes a and b");
  CHECK(judge_absence({"a", "b", "c"}, "").found ==
        "is not running, so nothing observes a and 2 other runs");
  const Site site;
  site.publish(training_status());
  CHECK(site.stoker({"doctor"}).out.find("nothing observes hello") != std::string::npos);
}
