// The batch script: its text, and its behaviour under a real bash with a scripted srun.
#include "slurm/batch_script.hpp"

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <poll.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "scripted_cluster.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::slurm;
using stoker::slurm::testing::example_request;
using stoker::testing::Folder;

namespace {

bool holds(const std::string& text, const std::string& line) {
  return text.find(line) != std::string::npos;
}

// Runs the script with this text as srun; `signal` is sent once the file "up" is there.
os::ExitStatus run_script(const Folder& f, const std::string& script, const std::string& srun,
                          int signal = 0) {
  REQUIRE(os::replace_file(f.path + "/srun", "#!/bin/bash\ncd " + f.path + "\n" + srun,
                           os::Durability::Cached, 0755));
  REQUIRE(os::replace_file(f.path + "/job.sh", script, os::Durability::Cached, 0755));
  os::SpawnOptions options;
  options.argv = {"/bin/bash", f.path + "/job.sh"};
  options.environment = {{"PATH", f.path + ":/usr/bin:/bin"}};
  auto child = os::spawn(options);
  REQUIRE(child);
  const Instant end = monotonic_now() + 10s;
  bool sent = signal == 0;
  while (monotonic_now() < end) {
    if (!sent && os::exists(f.path + "/up")) {
      sent = true;
      REQUIRE(os::send_signal(child->pidfd, signal));
    }
    const auto status = os::try_wait(*child);
    REQUIRE(status);
    if (*status) return **status;
    ::poll(nullptr, 0, 5);
  }
  FAIL("the script does not end");
  return {};
}

}  // namespace

TEST_CASE("batch script: of a follower -> behind the training, no step, an output of its own") {
  core::SubmitRequest request = example_request();
  request.submit.array_tasks = 1;
  request.submit.hold_for_spares = false;
  request.follower = true;
  request.output = "/gpfs/tr11/run/after/evaluate-001000.g000002/job";
  request.policy.run = RunName("tr11+evaluate.1000");
  request.policy.train.command = {"evaluate.py"};
  const auto script = batch_script(request);
  REQUIRE(script);
  for (const char* line :
       {"#SBATCH --job-name=tr11+evaluate.1000\n", "#SBATCH --nice=100\n",
        "#SBATCH --output=/gpfs/tr11/run/after/evaluate-001000.g000002/job-%j.out\n",
        "#SBATCH --dependency=singleton\n", "\n/sw/stoker-agent --run tr11 &\n"})
    CHECK_MESSAGE(holds(*script, line), line);
  for (const char* word : {"srun --", "--array", "--no-kill", "--signal"})
    CHECK_MESSAGE(!holds(*script, word), word);
}

TEST_CASE("batch script: the example -> every option where sbatch and srun want it") {
  const auto script = batch_script(example_request());
  REQUIRE(script);
  for (const char* line :
       {"#SBATCH --job-name=tr11\n", "#SBATCH --comment=tr11-42-0badcafe\n",
        "#SBATCH --array=1-10%1\n", "#SBATCH --nodes=3\n", "#SBATCH --time=20:00:00\n",
        "#SBATCH --partition=gpu_p5\n", "#SBATCH --account=six@a100\n", "#SBATCH --gres=gpu:8\n",
        "#SBATCH --signal=B:USR1@600\n", "#SBATCH --dependency=singleton\n",
        "#SBATCH --exclude=n[052-053]\n", "#SBATCH --open-mode=append\n", "#SBATCH --no-requeue\n",
        "#SBATCH --no-kill\n", "#SBATCH --hint=nomultithread\n", "export STOKER_RUN=tr11\n",
        "--kill-on-bad-exit=0 --cpus-per-task=64 --no-kill --wait=0 /sw/stoker-agent --run tr11 &"})
    CHECK_MESSAGE(holds(*script, line), line);
  CHECK(script->rfind("#!/bin/bash\n", 0) == 0);
  CHECK(script_path(example_request()) == "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh");
}

TEST_CASE("batch script: without spares, with begin and dependency -> as asked") {
  auto request = example_request();
  request.submit.hold_for_spares = false;
  request.submit.begin = "now+1hour";
  request.submit.dependency = "afterany:12";
  request.submit.exclude.clear();
  request.submit.time_limit = 90s;
  const auto script = batch_script(request);
  REQUIRE(script);
  CHECK(!holds(*script, "no-kill"));
  CHECK(!holds(*script, "--exclude"));
  CHECK(holds(*script, "#SBATCH --begin=now+1hour\n"));
  CHECK(holds(*script, "#SBATCH --dependency=singleton,afterany:12\n"));
  CHECK(holds(*script, "#SBATCH --signal=B:USR1@45\n"));
  CHECK(holds(*script, "--wait=600"));
}

TEST_CASE("batch script: hostile values -> quoted where they stand, or refused") {
  auto request = example_request();
  request.policy.scheduler.account = "a b\"; #c";
  request.environment["STOKER_X"] = "$(touch hacked)'`x`";
  request.agent_command = {"/bin/echo", "a'b c", "$HOME", ""};
  const auto script = batch_script(request);
  REQUIRE(script);
  CHECK(holds(*script, "#SBATCH --account=\"a b\\\"; #c\"\n"));
  CHECK(holds(*script, "export STOKER_X='$(touch hacked)'\\''`x`'\n"));
  CHECK(holds(*script, " /bin/echo 'a'\\''b c' '$HOME' '' &"));
  request.policy.scheduler.partition = "x\n#SBATCH --uid=0";
  CHECK(!batch_script(request));
  request = example_request();
  request.environment["A;rm"] = "x";
  CHECK(!batch_script(request));
  request = example_request();
  request.agent_command.clear();
  CHECK(!batch_script(request));
}

TEST_CASE("batch script: durations -> as sbatch takes them") {
  CHECK(slurm_duration(20h) == "20:00:00");
  CHECK(slurm_duration(90s) == "00:01:30");
  CHECK(slurm_duration(1ms) == "00:00:01");
  CHECK(slurm_duration(24h * 2 + 3h + 4min + 5s) == "2-03:04:05");
}

TEST_CASE("batch script: srun ends with 7 -> the job ends with 7; arguments arrive whole") {
  const Folder f;
  auto request = example_request();
  request.agent_command = {"/agent", "a b", "$HOME'"};
  const auto status =
      run_script(f, *batch_script(request),
                 "printf '%s\\n' \"${@: -3}\" > args; echo $STOKER_JOB_END_NS > wall; exit 7");
  CHECK(status.code == 7);
  CHECK(*os::read_file(f.path + "/args") == "/agent\na b\n$HOME'\n");
  const auto now = wall_now().time_since_epoch().count();
  const auto wall = std::stoll(*os::read_file(f.path + "/wall"));
  CHECK(wall > now + 71000 * 1000000000LL);
  CHECK(wall <= now + 72000 * 1000000000LL);
}

TEST_CASE("batch script: USR1 at the script -> reaches srun, and the script waits for its end") {
  const Folder f;
  const auto status = run_script(f, *batch_script(example_request()),
                                 "trap 'echo got > usr1; sleep 0.2; exit 10' USR1; touch up; "
                                 "while :; do sleep 0.02; done",
                                 SIGUSR1);
  CHECK(status.code == 10);
  CHECK(*os::read_file(f.path + "/usr1") == "got\n");
}

TEST_CASE("batch script: a command that does not trap USR1 -> never asked for, ignored if sent") {
  core::SubmitRequest request = example_request();
  request.policy.train.command = {"python3", "train.py"};
  const auto plain = batch_script(request);
  REQUIRE(plain);
  CHECK(!holds(*plain, "--signal"));
  CHECK(holds(*plain, "trap '' USR1\n"));
  request.policy.train.save_signal = "USR2";
  CHECK(!holds(*batch_script(request), "--signal"));
  request.policy.train.save_signal = "USR1";
  CHECK(holds(*batch_script(request), "#SBATCH --signal=B:USR1@"));
}
