// RUN.yaml's `after`: commands that are run on checkpoints.
#include <doctest/doctest.h>

#include "run_text.hpp"

using namespace stoker;
using namespace stoker::configs::testing;

TEST_CASE("run_after: after -> what is not given is the training's") {
  const auto file = read(
      "run: hello\nscheduler: {kind: slurm, partition: gpu, account: a, gpus_per_node: 8}\n"
      "train: {command: [train.py]}\n"
      "after:\n"
      "  - {every: 1000, command: [evaluate.py, \"{checkpoint}\"], nodes: 2}\n"
      "  - {name: upload, every: 10, command: [up], partition: io, gpus_per_node: null, tries: 1,\n"
      "     wait: 1min, backlog: 9, at_once: 2, time_limit: 1h, environment: {A: b}}\n");
  REQUIRE(file.errors.empty());
  const auto& after = file.policy.after;
  REQUIRE(after.size() == 2);
  CHECK(after[0].name == "after1");
  CHECK(after[0].every == 1000);
  CHECK(after[0].nodes == 2);
  CHECK(after[0].partition == "gpu");
  CHECK(after[0].gpus_per_node == 8u);
  CHECK(after[0].tries == 3);
  CHECK(after[1].name == "upload");
  CHECK(after[1].partition == "io");
  CHECK(after[1].account == "a");
  CHECK_FALSE(after[1].gpus_per_node.has_value());
  CHECK(after[1].environment.at("A") == "b");
  CHECK(after[1].time_limit == 1h);
}

TEST_CASE("run_after: after that could not work -> refused at its place") {
  CHECK(error_of("after: [{command: [up]}]").find("every") != std::string::npos);
  CHECK(error_of("after: [{every: 0, command: [up]}]").find("at least 1 iteration") !=
        std::string::npos);
  CHECK(error_of("after: [{every: 1, command: []}]").find("command: is empty") !=
        std::string::npos);
  CHECK(error_of("after: [{every: 1, command: [up], name: a/b}]").find("1 to 32 letters") !=
        std::string::npos);
  CHECK(error_of("after: [{every: 1, command: [a], name: x}, {every: 1, command: [b], name: x}]")
            .find("two followers are called \"x\"") != std::string::npos);
  CHECK(error_of("after: [{every: 1, command: [up], trys: 2}]").find("tries") != std::string::npos);
}
