// The orders that a start takes: those of its own submission or younger ones, seen late or not.
#include "worker/agent/storage/claim.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include "common/os/files.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {

struct RunFolder {
  RunContext context;
  Refused refused;
  RunFolder() {
    char name[] = "/tmp/stoker-claim-XXXXXX";
    context.run_directory = ::mkdtemp(name);
    REQUIRE(os::make_directories(context.run_directory + "/orders"));
  }
  ~RunFolder() { std::filesystem::remove_all(context.run_directory); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  void write(std::uint32_t number) const {
    wire::Orders orders;
    orders.number = OrderNumber(number);
    const std::string name = "/orders/00000" + std::to_string(number) + ".json";
    REQUIRE(os::replace_file(context.run_directory + name, to_json_text(orders) + "\n",
                             os::Durability::Cached));
  }
  // Number of the orders that are taken; 0: none.
  [[nodiscard]] std::uint32_t taken(Duration most) {
    const auto orders = orders_of_submission(context, refused, most, 5ms);
    REQUIRE(orders);
    return *orders ? (*orders)->number.value : 0;
  }
};

}  // namespace

TEST_CASE("orders: those of the submission or younger are there -> the newest at once") {
  RunFolder run;
  run.context.order = OrderNumber(2);
  run.write(2);
  CHECK(run.taken(1h) == 2);
  run.write(3);
  CHECK(run.taken(1h) == 3);
}

TEST_CASE("orders: seen late -> waited for, older ones are not taken meanwhile") {
  RunFolder run;
  run.context.order = OrderNumber(2);
  run.write(1);
  std::thread late([&run] {
    std::this_thread::sleep_for(50ms);
    run.write(2);
  });
  CHECK(run.taken(1min) == 2);
  late.join();
}

TEST_CASE("orders: never seen -> what there is, after the longest wait") {
  RunFolder run;
  run.context.order = OrderNumber(2);
  CHECK(run.taken(20ms) == 0);
  run.write(1);
  CHECK(run.taken(20ms) == 1);
}

TEST_CASE("orders: a start that no daemon submitted -> waits for none") {
  RunFolder run;
  CHECK(run.taken(1h) == 0);
}

TEST_CASE(
    "resume point: each checkpoint of the ancestry is damaged -> nothing begins from scratch") {
  RunFolder run;
  const auto put = [&run](const std::string& path, const std::string& text) {
    const std::string whole = run.context.run_directory + "/" + path;
    REQUIRE(os::make_directories(whole.substr(0, whole.rfind('/'))));
    REQUIRE(os::replace_file(whole, text, os::Durability::Cached));
  };
  wire::Start start;
  start.generation = Generation(1);
  start.lineage = wire::descend({}, Iteration{}, Generation(1));
  put("gen-000001/start.json", to_json_text(start) + "\n");
  const auto none = resume_point(run.context, wire::Orders{});
  REQUIRE(none);  // nothing was ever saved
  CHECK(none->iteration == Iteration{});
  put("checkpoints/" + wire::checkpoint_name(Iteration(20), Generation(1)) + "/manifest.json", "{");
  const auto refused = resume_point(run.context, wire::Orders{});
  REQUIRE(!refused);
  CHECK(refused.error().message().find("every checkpoint is damaged") != std::string::npos);
}

TEST_CASE("orders: a higher number that another user put there -> passed over and named") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: a file of another user needs root");
    return;
  }
  RunFolder run;
  run.write(1);
  run.write(9);
  const std::string planted = run.context.run_directory + "/orders/000009.json";
  REQUIRE(::chown(planted.c_str(), 54321, 0) == 0);
  CHECK(run.taken(0ms) == 1);
  REQUIRE(run.refused.size() == 1);
  CHECK(run.refused.begin()->find(planted) != std::string::npos);
  CHECK(run.refused.begin()->find("uid 54321") != std::string::npos);
}

TEST_CASE("orders: a link to a file of our own -> passed over") {
  RunFolder run;
  run.write(1);
  std::filesystem::create_symlink(run.context.run_directory + "/orders/000001.json",
                                  run.context.run_directory + "/orders/000009.json");
  CHECK(run.taken(0ms) == 1);
  CHECK(run.refused.size() == 1);
}

TEST_CASE("generations: a folder of another user -> does not count") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: a folder of another user needs root");
    return;
  }
  RunFolder run;
  for (const char* name : {"/gen-000001", "/gen-000002"})
    REQUIRE(os::make_directories(run.context.run_directory + name));
  REQUIRE(::chown((run.context.run_directory + "/gen-000002").c_str(), 54321, 0) == 0);
  CHECK(newest_generation(run.context.run_directory) == Generation(1));
}

TEST_CASE("claim: one that another user made -> an error, not a rival to give way to") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: a file of another user needs root");
    return;
  }
  RunFolder run;
  run.context.token = Token("demo-1-1");
  REQUIRE(claim_start(run.context)->ours);
  CHECK_FALSE(claim_start(run.context)->ours);
  const std::string claim =
      run.context.run_directory + "/claims/" + wire::claim_name(run.context.token, 0, 0);
  REQUIRE(::chown(claim.c_str(), 54321, 0) == 0);
  const auto planted = claim_start(run.context);
  REQUIRE_FALSE(planted.has_value());
  CHECK(planted.error().message().find("uid 54321") != std::string::npos);
}

TEST_CASE(
    "mint: folders of another user have the next numbers -> the next free one, in our folder") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: a folder of another user needs root");
    return;
  }
  RunFolder run;
  for (const char* name : {"/gen-000001", "/gen-000002", "/gen-000004"}) {
    REQUIRE(os::make_directories(run.context.run_directory + name));
    REQUIRE(::chown((run.context.run_directory + name).c_str(), 54321, 0) == 0);
  }
  for (const std::uint32_t expected : {3u, 5u}) {
    const auto minted = mint_generation(run.context, wire::Orders{}, ResumePoint{});
    REQUIRE(minted.has_value());
    CHECK(minted->start.generation == Generation(expected));
    CHECK(newest_generation(run.context.run_directory) == Generation(expected));
  }
  run.context.generation = Generation(4);
  CHECK_FALSE(mint_generation(run.context, wire::Orders{}, ResumePoint{}).has_value());
}
