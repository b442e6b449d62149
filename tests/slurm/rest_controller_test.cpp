// The Scheduler port over a scripted slurmrestd: what is no good answer proves nothing, and an
// order that may have been carried out is never given twice.
#include <doctest/doctest.h>

#include "rest_fixture.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::Certainty;
using core::JobState;

namespace {

using Fixture = RestFixture;

}  // namespace

TEST_CASE("slurmrestd: a queue -> all tasks of the array, in one question, without commands") {
  Fixture f;
  f.say("GET jobs", 200, captured("jobs"));
  const auto view = f.look();
  REQUIRE(view.has_value());
  std::size_t running = 0, waiting = 0;
  for (const core::JobSeen& job : view->jobs) {
    running += job.token == f.token && job.state == JobState::Running ? 1 : 0;
    waiting += job.token == f.token && job.state == JobState::Pending ? 1 : 0;
  }
  CHECK(running == 1);
  CHECK(waiting == 9);
  CHECK(view->nodes.size() == 8);
  CHECK(f.door->count("GET", "/jobs") == 1);
  CHECK(f.files.content["/state/slurm-cluster"] == "jean");
}

TEST_CASE("slurmrestd: what is no good answer -> blind, and nothing ends") {
  const std::string good = captured("jobs");
  for (const auto& [status, body, words] : std::vector<std::tuple<long, std::string, std::string>>{
           {500, captured("wrong_token"), "Failed while looking for jobs"},
           {200, R"({"errors": [{"error": "Unspecified error"}], "jobs": []})",
            "Unspecified error"},
           {500, kNoJobs, "answers 500"},
           {503, kNoJobs, "answers 503"},
           {204, "", "answers 204"},
           {200, "", "cut off"},
           {200, R"({"errors": []})", "without jobs"},
           {200, R"({"errors": [], "jobs": null})", "without jobs"},
           {200, R"({"errors": [], "jobs": {}})", "without jobs"},
           {200, good.substr(0, good.size() / 2), "cut off"},
           {200, "<html>Welcome</html>", "no JSON object"},
           {302, "", "not followed"},
           {401, "Authentication failure", "refuses the token"},
           {404, "Unable find requested URL.", "404"},
           {502, "<html>Bad gateway</html>", "Bad gateway"}}) {
    Fixture f;
    f.expect_it();
    f.say("GET jobs", status, body);
    const std::string said = std::to_string(status) + " " + std::string(body).substr(0, 80);
    CAPTURE(said);
    for (int i = 0; i < 4; ++i) {
      f.now += 2min;
      const auto view = f.look();
      REQUIRE(!view.has_value());
      CHECK_MESSAGE(view.error().message().find(words) != std::string::npos,
                    view.error().message());
    }
    CHECK(f.door->count("DELETE", "") == 0);
    f.say("GET jobs", 200, good);
    CHECK(f.look().has_value());
  }
}

TEST_CASE("slurmrestd: a server that is away, or an answer that is too long -> blind") {
  for (const char* why : {"Couldn't connect to server", "the answer is longer than what is read",
                          "the token of /t has expired at 2026-01-01T00:00:00Z"}) {
    Fixture f;
    f.expect_it();
    RestAnswer answer;
    answer.error = why;
    f.door->script["GET jobs"] = {answer};
    const auto view = f.look();
    REQUIRE(!view.has_value());
    CHECK(view.error().message().find(why) != std::string::npos);
  }
}

TEST_CASE("slurmrestd: an expected job is gone only after two denials a minute apart") {
  Fixture f;
  f.expect_it();
  f.say("GET jobs", 200, kNoJobs);
  const std::string job = "GET job/" + std::to_string(f.array);
  f.say(job, 500, captured("wrong_token"));
  f.now += 2min;
  CHECK(f.look()->gone.empty());
  f.now += 2min;
  CHECK(f.look()->gone.empty());
  f.say(job, 500, captured("denied"));
  f.now += 2min;
  CHECK(f.look()->gone.empty());
  f.now += 2min;
  REQUIRE(f.look()->gone.size() == 1);
}

TEST_CASE("slurmrestd: other controllers answer an empty queue -> nothing is gone") {
  Fixture f;
  f.expect_it();
  f.say("GET jobs", 200, kNoJobs);
  f.say("GET job/" + std::to_string(f.array), 500, captured("denied"));
  f.say("GET ping", 200, R"({"errors": [], "pings": [{"hostname": "elsewhere", "ping": "UP"}]})");
  for (int i = 0; i < 5; ++i) {
    f.now += 2min;
    const auto view = f.look();
    if (view) CHECK(view->gone.empty());
  }
}

TEST_CASE("slurmrestd: of another cluster -> blind, whether its jobs or the answer says so") {
  std::string other = captured("jobs");
  for (auto at = other.find("\"jean\""); at != std::string::npos; at = other.find("\"jean\"", at))
    other.replace(at, 6, "\"zay\"");
  for (const std::string& body :
       {other,
        std::string(R"({"meta": {"slurm": {"cluster": "zay"}}, "errors": [], "jobs": []})")}) {
    Fixture f;
    f.expect_it();
    f.say("GET jobs", 200, body);
    const auto view = f.look();
    REQUIRE(!view.has_value());
    CHECK(view.error().message().find("zay") != std::string::npos);
    CHECK(f.certainty() == Certainty::Definite);
    CHECK(f.door->count("POST", "submit") == 0);
    Fixture fresh;  // after a restart
    fresh.files.content["/state/slurm-cluster"] = "jean";
    fresh.say("GET jobs", 200, body);
    CHECK(!fresh.look().has_value());
  }
}

TEST_CASE("slurmrestd submit: a fresh token -> its fields, no #SBATCH line is relied on") {
  Fixture f;
  core::SubmitRequest request = example_request();
  request.policy.scheduler.extra = {"--qos=long"};
  f.say("POST job/submit", 200, captured("submitted"));
  REQUIRE(std::get<JobId>(f.scheduler.submit(request)).job == f.array);
  const auto body = parse_json(f.door->requests.back().body, "body");
  REQUIRE(body.has_value());
  const Json& job = body->at("job");
  CHECK(job.at("name") == "tr11");
  CHECK(job.at("comment") == "tr11-42-0badcafe");
  CHECK(job.at("array") == "1-10%1");
  CHECK(job.at("nodes") == "3");
  CHECK(job.at("tasks_per_node") == 1);
  CHECK(job.at("time_limit") == 1200);
  CHECK(job.at("dependency") == "singleton");
  CHECK(job.at("exclude_nodes") == "n[052-053]");
  CHECK(job.at("gres") == "gpu:8");
  CHECK(job.at("qos") == "long");
  CHECK(job.at("no_requeue") == true);
  CHECK(job.at("open_mode") == "append");
  CHECK(job.at("current_working_directory") == "/gpfs/tr11/run");
  CHECK(!job.contains("argv"));  // ends slurmrestd 22.05.8
  CHECK(!job.at("environment").contains("SLURM_JOB_ID"));
  CHECK(job.at("environment").at("PATH") == "/usr/bin");
  CHECK(body->at("script").get<std::string>().starts_with("#!/bin/bash\n"));
}

TEST_CASE(
    "slurmrestd submit: an option without a field -> sbatch of the same cluster, or a refusal") {
  Fixture f;
  core::SubmitRequest request = example_request();  // --hint
  f.say("POST job/submit", 200, captured("submitted"));
  const auto refused = std::get<core::PortError>(f.scheduler.submit(request));
  CHECK(refused.certainty == Certainty::Definite);
  CHECK(refused.error.message().find("--hint=nomultithread") != std::string::npos);
  CHECK(f.door->count("POST", "submit") == 0);

  f.processes.answers["scontrol"] = {says("Configuration\nClusterName = zay\n")};
  f.processes.answers["sbatch"] = {says("77\n")};
  f.say("GET jobs", 200, captured("jobs"));
  REQUIRE(f.look().has_value());
  f.say("GET jobs", 200, kNoJobs);
  CHECK(std::holds_alternative<core::PortError>(f.scheduler.submit(request)));
  CHECK(f.processes.count("sbatch") == 0);
  f.processes.answers["scontrol"] = {says("Configuration\nClusterName = jean\n")};
  CHECK(std::get<JobId>(f.scheduler.submit(request)).job == 77);
}

TEST_CASE("slurmrestd submit: what is refused, what is in doubt") {
  const auto judged = [](RestAnswer answer) {
    Fixture f;
    f.door->script["POST job/submit"] = {std::move(answer)};
    core::SubmitRequest request = example_request();
    request.policy.scheduler.extra.clear();
    return f.scheduler.submit(request);
  };
  const auto certainty = [&](RestAnswer answer) {
    return std::get<core::PortError>(judged(std::move(answer))).certainty;
  };
  CHECK(std::holds_alternative<JobId>(judged(answers(200, captured("submitted_held")))));
  CHECK(certainty(answers(500, captured("refused_partition"))) == Certainty::Definite);
  CHECK(certainty(answers(400, captured("refused_option"))) == Certainty::Definite);
  CHECK(certainty(answers(401, "Authentication failure")) == Certainty::Definite);
  CHECK(certainty(answers(302, "")) == Certainty::Definite);
  CHECK(certainty(answers(500, captured("wrong_token"))) == Certainty::Unknown);
  CHECK(certainty(answers(500, R"({"errors": [{"error": "Socket timed out on send/recv"}]})")) ==
        Certainty::Unknown);
  CHECK(certainty(answers(200, R"({"errors": []})")) == Certainty::Unknown);
  CHECK(certainty(answers(200, R"({"errors": [], "job_id": 0})")) == Certainty::Unknown);
  CHECK(certainty(answers(200, R"({"errors": [], "job)")) == Certainty::Unknown);
  CHECK(certainty(answers(502, "<html>")) == Certainty::Unknown);
  CHECK(certainty(answers(500, R"({"errors": [], "job_id": 7})")) == Certainty::Unknown);
  RestAnswer lost;
  lost.error = "Server returned nothing (no headers, no data)";
  CHECK(certainty(lost) == Certainty::Unknown);
  lost.reached = false;
  CHECK(certainty(lost) == Certainty::Definite);
}

TEST_CASE("slurmrestd submit: the token is in the queue already -> its id, nothing is sent") {
  Fixture f;
  f.say("GET jobs", 200, captured("jobs"));
  CHECK(std::get<JobId>(f.submit()).job == f.array);
  CHECK(f.door->count("POST", "submit") == 0);
}

TEST_CASE("slurmrestd cancel: a job of ours; waiting tasks alone; another token's is left alone") {
  Fixture f;
  const std::string id = std::to_string(f.array);
  core::Cancel cancel;
  cancel.token = f.token;
  cancel.job = JobId{f.array, 1};
  f.say("DELETE job/" + id + "_1", 200, captured("cancelled"));
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
  CHECK(f.door->count("DELETE", "/" + id + "_1") == 1);
  cancel.pending_only = cancel.whole_array = true;
  const std::string waiting = id + "_%5B2-10%5D";
  f.say("DELETE job/" + waiting, 200, captured("cancelled"));
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
  CHECK(f.door->count("DELETE", waiting) == 1);
  CHECK(f.door->count("DELETE", "/" + id) == 0);
  f.say("DELETE job/" + waiting, 500, captured("cancel_denied"));  // over in the meantime
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
  f.say("DELETE job/" + waiting, 500, captured("wrong_token"));
  CHECK(std::get<core::PortError>(f.scheduler.cancel(cancel)).certainty == Certainty::Unknown);
  const std::size_t before = f.door->count("DELETE", "");
  cancel.token = Token("tr11-43-11111111");
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
  CHECK(f.door->count("DELETE", "") == before);
}

TEST_CASE("slurmrestd exclusions: sent whole, read again, and requeueing stays off") {
  Fixture f;
  REQUIRE(f.look().has_value());  // the nodes are known now
  core::SetExclusions change;
  change.token = f.token;
  change.job = JobId{f.array, 0};
  change.nodes = {NodeName("n05"), NodeName("n06"), NodeName("left-the-cluster")};
  const std::string job = "job/" + std::to_string(f.array);
  f.say("POST " + job, 200, captured("changed"));  // an error without a meaning: one task runs
  f.door->script["GET " + job] = {answers(200, captured("job")),
                                  answers(200, captured("job_changed"))};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.set_exclusions(change)));
  const auto sent =
      std::find_if(f.door->requests.begin(), f.door->requests.end(),
                   [](const RestRequest& request) { return request.method == "POST"; });
  REQUIRE(sent != f.door->requests.end());
  CHECK(sent->body == R"({"exclude_nodes":"n[05-06]","no_requeue":true})");
  f.say("GET " + job, 200, captured("job"));  // not taken
  CHECK(
      std::get<core::PortError>(f.scheduler.set_exclusions(change)).error.what.find("not taken") !=
      std::string::npos);
}

TEST_CASE("slurmrestd: signals and steps are left to commands, never of another cluster") {
  Fixture f;
  f.expect_it();
  core::SignalJob signal;
  signal.token = f.token;
  signal.job = JobId{f.array, 1};
  signal.signal = "USR1";
  const auto without = std::get<core::PortError>(f.scheduler.signal(signal));
  CHECK(without.error.message().find("command not found") != std::string::npos);
  f.processes.answers["scontrol"] = {says("Configuration\nClusterName = zay\n")};
  f.processes.answers["scancel"] = {says("")};
  CHECK(std::holds_alternative<core::PortError>(f.scheduler.signal(signal)));
  CHECK(f.processes.count("scancel") == 0);
  f.processes.answers["scontrol"] = {says("Configuration\nClusterName = jean\n")};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.signal(signal)));
  CHECK(f.processes.count("scancel") == 1);
}

TEST_CASE("slurmrestd: the newest version that is there; a server without any is named") {
  Fixture f;
  REQUIRE(f.look().has_value());
  REQUIRE(f.look().has_value());
  CHECK(f.door->count("GET", "/slurm/v0.0.43/ping") == 1);
  CHECK(f.door->count("GET", "/slurm/v0.0.39/ping") == 1);
  Fixture none;
  none.door->script.clear();
  const auto view = none.look();
  REQUIRE(!view.has_value());
  CHECK(view.error().message().find("v0.0.38 to v0.0.43") != std::string::npos);
  CHECK(view.error().message().find("unix:/run/slurmrestd.sock") != std::string::npos);
}
