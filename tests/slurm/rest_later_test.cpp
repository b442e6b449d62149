// The Scheduler port over the answers of slurmrestd 24.11.5 (tests/slurm/rest/24.11.5), each of the
// three versions of its API.
#include <doctest/doctest.h>

#include "rest_fixture.hpp"
#include "slurm/rest/job_rows.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::Certainty;
using core::JobState;

namespace {

constexpr int kVersions[] = {40, 41, 42};

struct LaterFixture : RestFixture {
  explicit LaterFixture(int version) : RestFixture(version) {}
  void answer(const std::string& request, const std::string& name) {
    door->script[request] = {captured_answer(name, api)};
  }
  Json sent(const std::string& method) {
    auto body = parse_json(door->sent(method), "what was sent");
    REQUIRE(body.has_value());
    return *body;
  }
  core::Cancel cancel_of(std::uint32_t task) const {
    core::Cancel cancel;
    cancel.token = token;
    cancel.job = JobId{array, task};
    return cancel;
  }
};

core::SubmitRequest plain_request() {
  core::SubmitRequest request = example_request();
  request.policy.scheduler.extra.clear();
  return request;
}

}  // namespace

TEST_CASE(
    "slurmrestd 24.11: a queue -> all tasks, with their nodes; an empty one names its cluster") {
  for (const int api : kVersions) {
    CAPTURE(api);
    LaterFixture f(api);
    f.answer("GET jobs", "jobs");
    const auto view = f.look();
    REQUIRE(view.has_value());
    std::size_t running = 0, waiting = 0;
    for (const core::JobSeen& job : view->jobs) {
      running += job.state == JobState::Running && job.nodes.size() == 3 ? 1 : 0;
      waiting += job.state == JobState::Pending && job.reason == "JobArrayTaskLimit" ? 1 : 0;
      CHECK(job.token == f.token);
    }
    CHECK(running == 1);
    CHECK(waiting == 9);
    REQUIRE(view->nodes.size() == 8);
    CHECK(view->nodes.front().state == "mixed");
    CHECK(view->nodes.back().state == "drained");
    CHECK(view->nodes.back().reason == "Kill task failed");
    CHECK(!view->nodes.back().usable);
    LaterFixture empty(api);  // by `meta`, which every answer has
    REQUIRE(empty.look().has_value());
    CHECK(empty.files.content["/state/slurm-cluster"] == "jean");
  }
}

TEST_CASE("slurmrestd 24.11: rows -> ids, times, exit codes and the script's path") {
  for (const int api : kVersions) {
    CAPTURE(api);
    const QueueQuestion everything;
    JobRows rows(everything);
    JsonItems items("jobs", [&rows](const JsonItem& job) { return rows.add(job); });
    REQUIRE(items.feed(captured("jobs", api)).has_value());
    REQUIRE(items.finish().has_value());
    bool failed = false, ran = false;
    for (const QueueRow& row : rows.take()) {
      if (row.name == "other") {
        failed = true;
        CHECK(row.state == JobState::Failed);
        CHECK(row.id.task == 0);
        CHECK(row.numbers->exit_code == 15);
      }
      if (row.id.task != 1) continue;
      ran = true;
      CHECK(row.raw_id != row.id.job);
      CHECK(row.ends.has_value());
      CHECK(row.comment == "tr11-42-0badcafe");
      CHECK(token_of_command(row.command).text == "tr11-42-0badcafe");
    }
    CHECK(failed);
    CHECK(ran);
  }
}

TEST_CASE("slurmrestd 24.11: what was cancelled while it waited keeps its numbers") {
  LaterFixture f(42);
  f.answer("GET jobs", "jobs_cancelled");
  const auto view = f.look();
  REQUIRE(view.has_value());
  std::size_t cancelled = 0, ending = 0;
  for (const core::JobSeen& job : view->jobs) {
    cancelled += job.state == JobState::Cancelled ? 1 : 0;
    ending += job.state == JobState::Completing ? 1 : 0;  // CANCELLED and COMPLETING
  }
  CHECK(cancelled == 9);
  CHECK(ending == 1);
}

TEST_CASE("slurmrestd 24.11: an id is gone after two denials; a refused token denies nothing") {
  for (const int api : kVersions) {
    CAPTURE(api);
    LaterFixture f(api);
    f.expect_it();
    f.say("GET jobs", 200, kNoJobs);
    const std::string job = "GET job/" + std::to_string(f.array);
    f.answer(job, "wrong_token");
    for (int i = 0; i < 3; ++i) {
      f.now += 2min;
      CHECK(f.look()->gone.empty());
    }
    f.answer(job, "denied");
    f.now += 2min;
    CHECK(f.look()->gone.empty());
    f.now += 2min;
    CHECK(f.look()->gone.size() == 1);
    f.answer("GET jobs", "wrong_token");
    const auto blind = f.look();
    REQUIRE(!blind.has_value());
    CHECK(blind.error().message().find("refuses the token (511)") != std::string::npos);
  }
}

TEST_CASE("slurmrestd 24.11: a controller that does not answer its ping names no cluster") {
  LaterFixture f(42);
  std::string down = captured("ping", 42);
  down.replace(down.find("\"UP\""), 4, "\"DOWN\"");
  f.say("GET ping", 200, down);
  const auto view = f.look();
  REQUIRE(!view.has_value());
  CHECK(view.error().message().find("slurmctld does not answer") != std::string::npos);
  CHECK(f.files.content.empty());
}

TEST_CASE("slurmrestd 24.11 submit: typed fields, the script's path, and the warning signal") {
  for (const int api : kVersions) {
    CAPTURE(api);
    LaterFixture f(api);
    core::SubmitRequest request = plain_request();
    request.policy.train.save_signal = "USR1";
    request.policy.scheduler.extra = {"--qos=long", "--exclusive"};
    f.answer("POST job/submit", "submitted");
    REQUIRE(std::get<JobId>(f.scheduler.submit(request)).job == f.array);
    const Json body = f.sent("POST");
    const Json& job = body.at("job");
    CHECK(job.at("nodes") == "3");
    CHECK(job.at("time_limit") == 1200);
    CHECK(job.at("excluded_nodes") == Json::array({"n052", "n053"}));
    CHECK(job.at("open_mode") == Json::array({"APPEND"}));
    CHECK(job.at("requeue") == false);
    CHECK(job.at("kill_on_node_fail") == false);
    CHECK(job.at("shared") == Json::array({"none"}));
    CHECK(job.at("tres_per_node") == "gres:gpu:8");
    CHECK(job.at("kill_warning_signal") == "USR1");
    CHECK(job.at("kill_warning_delay").get<int>() > 0);
    CHECK(job.at("kill_warning_flags") == Json::array({"BATCH_JOB"}));
    CHECK(job.at("argv") == Json::array({"/gpfs/tr11/run/batch/tr11-42-0badcafe.sh"}));
    CHECK(job.at("environment").is_array());
    CHECK(job.at("script").get<std::string>().starts_with("#!/bin/bash\n"));
  }
}

TEST_CASE("slurmrestd 24.11 submit: what is refused, what is in doubt") {
  for (const int api : kVersions) {
    CAPTURE(api);
    const auto judged = [api](RestAnswer answer) {
      LaterFixture f(api);
      f.door->script["POST job/submit"] = {std::move(answer)};
      return f.scheduler.submit(plain_request());
    };
    const auto certainty = [&](RestAnswer answer) {
      return std::get<core::PortError>(judged(std::move(answer))).certainty;
    };
    CHECK(std::holds_alternative<JobId>(judged(captured_answer("submitted_held", api))));
    CHECK(certainty(captured_answer("refused_partition", api)) == Certainty::Definite);
    CHECK(certainty(captured_answer("wrong_token", api)) == Certainty::Unknown);
    // v0.0.41 and v0.0.42 name the job that they made beside an error about a field.
    RestAnswer made = captured_answer("submitted", api);
    made.status = 500;
    CHECK(certainty(made) == Certainty::Unknown);
  }
}

TEST_CASE("slurmrestd 24.11 cancel: a job, or what waits of it, and of our user alone") {
  for (const int api : kVersions) {
    CAPTURE(api);
    LaterFixture f(api);
    const std::string id = std::to_string(f.array);
    core::Cancel cancel = f.cancel_of(1);
    f.answer("DELETE jobs/", "cancelled");
    CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
    CHECK(f.sent("DELETE") == Json{{"jobs", {id + "_1"}}, {"user_name", "alice"}});
    cancel.pending_only = cancel.whole_array = true;
    f.answer("DELETE jobs/", "cancelled_waiting");  // the running task is said to be no part of it
    CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
    CHECK(f.sent("DELETE") ==
          Json{{"jobs", {id}}, {"job_state", {"PENDING"}}, {"user_name", "alice"}});
    f.answer("DELETE jobs/", "cancel_denied");  // over in the meantime
    CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
    for (const char* bad : {"cancel_foreign", "wrong_token"}) {
      f.answer("DELETE jobs/", bad);
      CHECK(std::get<core::PortError>(f.scheduler.cancel(cancel)).certainty == Certainty::Unknown);
    }
    CHECK(f.door->count("DELETE", "/jobs/") == 5);
  }
}

TEST_CASE("slurmrestd cancel: a server without orders about lists -> each by its id") {
  LaterFixture f(40);
  const std::string id = std::to_string(f.array);
  for (const long status : {404L, 405L}) {
    f.say("DELETE jobs/", status, "no such thing");
    f.answer("DELETE job/" + id + "_1", "cancelled");
    CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(f.cancel_of(1))));
  }
  CHECK(f.door->count("DELETE", id + "_1") == 2);
}

TEST_CASE("slurmrestd 24.11 signal: to the steps alone; a server without that: by commands") {
  for (const int api : kVersions) {
    CAPTURE(api);
    LaterFixture f(api);
    core::SignalJob signal;
    signal.token = f.token;
    signal.job = JobId{f.array, 1};
    signal.signal = "USR1";
    f.answer("DELETE jobs/", "signalled");
    CHECK(std::holds_alternative<std::monostate>(f.scheduler.signal(signal)));
    CHECK(f.sent("DELETE") == Json{{"jobs", {std::to_string(f.array) + "_1"}},
                                   {"signal", "USR1"},
                                   {"flags", {"FULL_STEPS_ONLY"}},
                                   {"user_name", "alice"}});
    CHECK(f.processes.count("scancel") == 0);
    f.say("DELETE jobs/", 404, "no such thing");
    const auto lost = std::get<core::PortError>(f.scheduler.signal(signal));
    CHECK(lost.error.message().find("command not found") != std::string::npos);
  }
}

TEST_CASE("slurmrestd 24.11 exclusions: sent as a list, read again") {
  for (const int api : kVersions) {
    CAPTURE(api);
    LaterFixture f(api);
    REQUIRE(f.look().has_value());  // the nodes are known now
    core::SetExclusions change;
    change.token = f.token;
    change.job = JobId{f.array, 0};
    change.nodes = {NodeName("n05"), NodeName("n06"), NodeName("left-the-cluster")};
    const std::string job = "job/" + std::to_string(f.array);
    f.answer("POST " + job, "changed");
    f.door->script["GET " + job] = {captured_answer("job", api),
                                    captured_answer("job_changed", api)};
    CHECK(std::holds_alternative<std::monostate>(f.scheduler.set_exclusions(change)));
    CHECK(f.sent("POST") == Json{{"excluded_nodes", {"n05", "n06"}}});
    change.nodes.clear();
    f.scheduler.set_exclusions(change);
    CHECK(f.sent("POST") == Json{{"excluded_nodes", {""}}});  // an empty list changes nothing
    change.nodes = {NodeName("n05"), NodeName("n06")};
    f.answer("GET " + job, "job");  // not taken
    const auto refused = std::get<core::PortError>(f.scheduler.set_exclusions(change));
    CHECK(refused.error.what.find("not taken") != std::string::npos);
  }
}
