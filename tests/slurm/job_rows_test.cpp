// Jobs and nodes as slurmrestd 22.05.8 listed them, and in the shapes of later releases.
#include "slurm/rest/job_rows.hpp"

#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "scripted_door.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::JobState;

namespace {

Result<std::vector<QueueRow>> rows_of(const std::string& text, QueueQuestion question = {}) {
  JobRows rows(question);
  JsonItems items("jobs", [&rows](const JsonItem& job) { return rows.add(job); });
  STOKER_TRY_STATUS(items.feed(text));
  if (auto document = items.finish(); !document) return fail(document.error());
  return rows.take();
}

const QueueRow* find(const std::vector<QueueRow>& rows, std::uint32_t task) {
  for (const QueueRow& row : rows)
    if (row.name == "tr11" && row.id.task == task) return &row;
  return nullptr;
}

std::string one(const std::string& members) {
  return R"({"jobs": [{)" + members + "}]}";
}

const std::string kLater =
    R"("job_id": {"set": true, "infinite": false, "number": 124}, "user_id": 1000,
       "user_name": "alice", "name": "tr11", "job_state": ["RUNNING"], "command": "/x.sh",
       "comment": "tr11-42-0badcafe", "array_job_id": {"set": true, "number": 123},
       "array_task_id": {"set": true, "infinite": false, "number": 0}, "nodes": "n[1-2]",
       "end_time": {"set": true, "infinite": false, "number": 1700072000}, "restart_cnt": 2,
       "exit_code": {"return_code": {"set": true, "number": 3}, "signal": {"id": {
       "set": false, "number": 0}}}, "new_field": {"deep": [1, {"x": "y"}]})";

}  // namespace

TEST_CASE("slurmrestd 22.05: a queue -> a row a task, waiting ones too, with their numbers") {
  const auto rows = rows_of(captured("jobs"));
  REQUIRE(rows.has_value());
  CHECK(rows->size() == 13);
  const QueueRow* running = find(*rows, 1);
  REQUIRE(running != nullptr);
  CHECK(running->state == JobState::Running);
  CHECK(running->nodes.size() == 3);
  CHECK(running->comment == "tr11-42-0badcafe");
  CHECK(running->user == "alice");
  CHECK(running->raw_id != running->id.job);
  CHECK(running->ends.has_value());
  for (std::uint32_t task = 2; task <= 10; ++task) {
    const QueueRow* waiting = find(*rows, task);
    REQUIRE(waiting != nullptr);
    CHECK(waiting->state == JobState::Pending);
    CHECK(waiting->id.job == running->id.job);
    CHECK(waiting->reason == "JobArrayTaskLimit");
    CHECK(waiting->nodes.empty());
  }
  const auto failed = std::find_if(rows->begin(), rows->end(), [](const QueueRow& row) {
    return row.state == JobState::Failed;
  });
  REQUIRE(failed != rows->end());
  CHECK(failed->id.task == 0);
  CHECK(failed->numbers->exit_code == 15);
  CHECK(failed->numbers->signal == 0x35);
}

TEST_CASE("slurmrestd 22.05: what was cancelled while it waited keeps its numbers") {
  const auto part = rows_of(captured("jobs_part_cancelled"));
  REQUIRE(part.has_value());
  CHECK(find(*part, 2) != nullptr);
  CHECK(find(*part, 3) == nullptr);
  const auto rows = rows_of(captured("jobs_cancelled"));
  REQUIRE(rows.has_value());
  CHECK(find(*rows, 1)->state == JobState::Cancelled);
  CHECK(find(*rows, 2)->state == JobState::Cancelled);
  CHECK(find(*rows, 2)->nodes.empty());
}

TEST_CASE("slurmrestd: only wanted users, names and folders are read") {
  CHECK(rows_of(captured("jobs"), {"bob"})->empty());
  CHECK(rows_of(captured("jobs"), {"bob,alice"})->size() == 13);
  CHECK(rows_of(captured("jobs"), {"alice", 0, {RunName("tr11")}})->size() == 10);
  CHECK(rows_of(one(kLater), {"", 0, {RunName("tr12")}, {"/x"}})->size() == 1);
  // Somebody else's unreadable job is no trouble; an unreadable one of ours is.
  const std::string strange = one(R"("job_id": null, "user_name": "bob", "name": "tr11")");
  CHECK(rows_of(strange, {"alice"}).has_value());
  CHECK(!rows_of(strange).has_value());
}

TEST_CASE("slurmrestd: shapes of later releases, fields that are new") {
  const auto rows = rows_of(one(kLater));
  REQUIRE(rows.has_value());
  REQUIRE(rows->size() == 1);
  const QueueRow& row = rows->front();
  CHECK(row.raw_id == 124);
  CHECK(row.id == JobId{123, 0});
  CHECK(row.nodes.size() == 2);
  CHECK(row.numbers->restarts == 2);
  CHECK(row.numbers->exit_code == 3);
}

TEST_CASE("slurmrestd: a field that is missing or strange -> an error that names it") {
  for (const auto& [from, to, field] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"\"user_id\": 1000", "\"user_ix\": 1000", "user_id"},
           {"\"name\": \"tr11\"", "\"name\": 7", "name"},
           {"[\"RUNNING\"]", "[\"WALKING\"]", "job_state"},
           {"[\"RUNNING\"]", "[]", "job_state"},
           {"\"n[1-2]\"", "\"n[1-\"", "nodes"},
           {"\"number\": 124", "\"number\": 0", "job_id"}}) {
    std::string text = kLater;
    text.replace(text.find(from), from.size(), to);
    const auto rows = rows_of(one(text));
    const std::string missing = field;
    CAPTURE(missing);
    REQUIRE(!rows.has_value());
    CHECK(rows.error().what.find(field) != std::string::npos);
  }
}

TEST_CASE("slurmrestd: tasks that wait together") {
  using Tasks = std::vector<std::uint32_t>;
  CHECK(*tasks_in("2-4%1") == Tasks{2, 3, 4});
  CHECK(*tasks_in("1,3,7-9:2") == Tasks{1, 3, 7, 9});
  CHECK(*tasks_in("0") == Tasks{0});
  CHECK(*tasks_in("1,5,...") == Tasks{1, 5});
  for (const char* bad : {"x", "1-", "3-2", "1-5:0", "1,,2", "1,", "1;2", "0-4294967293",
                          "99999999999", "-1", "1-2-3"}) {
    CAPTURE(bad);
    CHECK(!tasks_in(bad).has_value());
  }
}

TEST_CASE("slurmrestd: nodes as sinfo would name their states") {
  std::map<std::string, core::NodeSeen> nodes;
  JsonItems items("nodes", [&nodes](const JsonItem& item) -> Status {
    STOKER_TRY(seen, node_seen_in(item));
    nodes[seen.node.text] = seen;
    return ok();
  });
  REQUIRE(items.feed(captured("nodes")).has_value());
  REQUIRE(items.finish().has_value());
  REQUIRE(nodes.size() == 8);
  CHECK(nodes["n01"].state == "mixed");
  CHECK(nodes["n04"].usable);
  CHECK(nodes["n08"].state == "drained");
  CHECK(nodes["n08"].reason == "Kill task failed");
  CHECK(!nodes["n08"].usable);
  const auto state = [](const std::string& members) {
    std::string out;
    JsonItems one("nodes", [&out](const JsonItem& item) {
      out = node_state_of(item);
      return ok();
    });
    CHECK(one.feed(R"({"nodes": [{"name": "n1", )" + members + "}]}").has_value());
    return out;
  };
  CHECK(state(R"("state": ["IDLE", "DRAIN"])") == "drained");
  CHECK(state(R"("state": ["MIXED", "DRAIN"])") == "draining");
  CHECK(state(R"("state": ["DOWN", "NOT_RESPONDING"])") == "down*");
  CHECK(state(R"("state": "idle", "state_flags": ["POWERED_DOWN"])") == "idle~");
  CHECK(state(R"("state": ["IDLE", "MAINTENANCE"])") == "idle$");
}
