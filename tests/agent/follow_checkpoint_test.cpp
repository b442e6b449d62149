// `stoker-agent follow`: the command's arguments and environment, its end, and the fences in front.
#include "worker/agent/follow_checkpoint.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "worker/agent/hidden_values.hpp"

using namespace stoker;
using namespace stoker::agent;
using stoker::testing::Folder;

namespace {

const Token kToken("run+evaluate.1000-1-0badcafe");

wire::FollowOrder order_in(const Folder& folder, std::vector<std::string> command) {
  wire::FollowOrder order;
  order.run = RunName("run");
  order.follower = "evaluate";
  order.iteration = Iteration(1000);
  order.generation = Generation(2);
  order.checkpoint = folder.path;
  order.token = kToken;
  order.command = std::move(command);
  order.environment = {{"METRIC", "bleu"}};
  order.directory = folder.path;
  return order;
}

int follow(const Folder& folder, const wire::FollowOrder& order) {
  folder.write("order.json", to_json_text(order));
  return follow_checkpoint({folder.path, kToken.text, 0s});
}

std::optional<wire::FollowEnd> end_in(const Folder& folder) {
  const std::string path = folder / wire::follow_end(kToken);
  const auto text = os::read_file(path);
  if (!text) return std::nullopt;
  const auto end = from_json_text<wire::FollowEnd>(*text, path);
  REQUIRE(end);
  return *end;
}

}  // namespace

TEST_CASE("follow: placeholders -> their values, also inside an argument; others stay") {
  const Folder folder;
  auto order = order_in(folder, {"upload", "{checkpoint}", "s3://x/{run}-{iteration}.pt", "{a}"});
  CHECK(filled_command(order, "/c/{run}") ==
        std::vector<std::string>{"upload", "/c/{run}", "s3://x/run-1000.pt", "{a}"});
}

TEST_CASE("follow: a command that ends well -> its environment, its last line, a durable end") {
  const Folder folder;
  const int code = follow(
      folder, order_in(folder, {"/bin/sh", "-c",
                                "echo $STOKER_RUN $STOKER_ITERATION $STOKER_FOLLOWER $METRIC; "
                                "test \"$STOKER_CHECKPOINT\" = \"$PWD\"; printf ' \\n\\n'"}));
  CHECK(code == 0);
  const auto end = end_in(folder);
  REQUIRE(end);
  CHECK(end->code == 0);
  CHECK(end->token == kToken);
  CHECK(end->words == "run 1000 evaluate bleu");
  CHECK_FALSE(end->ordered);
}

TEST_CASE("follow: a command prints values of its environment -> they are hidden in its words") {
  const Folder folder;
  auto order = order_in(folder, {"/bin/sh", "-c", "echo \"$KEY$METRIC $LONG $KEY\"; exit 1"});
  order.environment["KEY"] = "hunter2";
  order.environment["LONG"] = "hunter2-and-more";
  CHECK(follow(folder, order) == 1);
  CHECK(end_in(folder)->words == "(hidden)bleu (hidden) (hidden)");
  CHECK(without_values("no hunter2, nothing", {{"KEY", "hunter2"}, {"NO", "no"}}) ==
        "no (hidden), nothing");
}

TEST_CASE("follow: a command that fails -> its code and its last line, on one printable line") {
  const Folder folder;
  CHECK(follow(folder,
               order_in(folder, {"/bin/sh", "-c", "printf 'a\\nno \\033file' >&2; exit 3"})) == 3);
  const auto end = end_in(folder);
  REQUIRE(end);
  CHECK(end->code == 3);
  CHECK(end->words.find("no ") == 0);
  CHECK(end->words.find('\033') == std::string::npos);
}

TEST_CASE("follow: the command gets the job's TERM before its wrapper does -> it was ordered") {
  const Folder folder;
  CHECK(follow(folder, order_in(folder, {"/bin/sh", "-c",
                                         "setsid sh -c \"sleep 0.6; kill -TERM $PPID\" & "
                                         "sleep 0.2; kill -TERM $$"})) == 128 + 15);
  const auto end = end_in(folder);
  REQUIRE(end);
  CHECK(end->signal == 15);
  CHECK(end->ordered);
}

TEST_CASE("follow: no such command, no such checkpoint -> an end that says so") {
  const Folder folder;
  CHECK(follow(folder, order_in(folder, {"/nosuch/evaluate"})) == 127);
  CHECK(end_in(folder)->words.find("/nosuch/evaluate") != std::string::npos);
  const Folder other;
  auto order = order_in(other, {"true"});
  order.checkpoint = other / "step-001000.g000002";
  CHECK(follow(other, order) == 127);
  CHECK(end_in(other)->words.find("not there") != std::string::npos);
}

TEST_CASE("follow: of a foreign format -> found by its iteration") {
  const Folder folder;
  auto order = order_in(folder, {"/bin/sh", "-c", "echo $STOKER_CHECKPOINT"});
  order.checkpoint.clear();
  order.checkpoint_directory = folder / "out";
  REQUIRE(os::make_directories(folder / "out/iter_0001000"));
  REQUIRE(os::make_directories(folder / "out/iter_0002000"));
  CHECK(follow(folder, order) == 0);
  CHECK(end_in(folder)->words.ends_with("/out/iter_0001000"));
}

TEST_CASE("follow: started twice -> the command runs once") {
  const Folder folder;
  const auto order = order_in(folder, {"/bin/sh", "-c", "echo x >> count"});
  CHECK(follow(folder, order) == 0);
  CHECK(follow(folder, order) == 3);
  CHECK(*os::read_file(folder / "count") == "x\n");
}

TEST_CASE("follow: a later try has taken its place -> nothing runs, no end is written") {
  const Folder folder;
  auto order = order_in(folder, {"/bin/sh", "-c", "echo x >> count"});
  order.token = Token("run+evaluate.1000-2-deadbeef");
  CHECK(follow(folder, order) == 2);
  CHECK_FALSE(os::exists(folder / "count"));
  CHECK_FALSE(end_in(folder));
}

TEST_CASE("follow: on another node than the first -> leaves it to that one") {
  const Folder folder;
  ::setenv("SLURM_NODEID", "1", 1);
  CHECK(follow(folder, order_in(folder, {"/bin/sh", "-c", "echo x >> count"})) == 0);
  ::unsetenv("SLURM_NODEID");
  CHECK_FALSE(os::exists(folder / "count"));
}
