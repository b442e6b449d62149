// The heartbeat page: what one side writes the other reads, also while it is written, and from
// Python.
#include "wire/heartbeat_page.hpp"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <utime.h>

#include "common/os/process.hpp"
#include "wire/step_losses.hpp"

using namespace stoker;
using namespace stoker::wire;

namespace {

struct PagePath {
  std::string path;
  PagePath() {
    char name[] = "/tmp/stoker-page-XXXXXX";
    path = std::string(::mkdtemp(name)) + "/page";
  }
  ~PagePath() { std::filesystem::remove_all(std::filesystem::path(path).parent_path()); }
  PagePath(const PagePath&) = delete;
  PagePath& operator=(const PagePath&) = delete;
};

}  // namespace

TEST_CASE("heartbeat page: a beat -> read as it was written; requests go the other way") {
  const PagePath at;
  auto agents = HeartbeatPage::create(at.path);
  REQUIRE(agents);
  CHECK_FALSE(agents->read().has_value());
  auto trainings = HeartbeatPage::open(at.path);
  REQUIRE(trainings);
  Heartbeat beat;
  beat.attempt = Attempt(3);
  beat.phase = Phase::Evaluation;
  beat.iteration = Iteration(77);
  beat.loss = 1.25;
  beat.gradient_norm = std::numeric_limits<double>::quiet_NaN();
  trainings->write(beat);
  const auto read = agents->read();
  REQUIRE(read);
  CHECK(read->attempt == Attempt(3));
  CHECK(read->phase == Phase::Evaluation);
  CHECK(read->iteration == Iteration(77));
  CHECK(read->loss == 1.25);
  agents->request_save();
  agents->request_leave(Leave::SaveAndLeave);
  CHECK(trainings->save_request() == 1);
  CHECK(trainings->leave() == Leave::SaveAndLeave);
}

TEST_CASE(
    "heartbeat page: read while it is written -> never half of one beat and half of another") {
  const PagePath at;
  auto agents = HeartbeatPage::create(at.path);
  auto trainings = HeartbeatPage::open(at.path);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= 20000; ++i) {
      Heartbeat beat;
      beat.iteration = Iteration(i);
      beat.consumed_samples = 8 * i;
      beat.consumed_tokens = 1024 * i;
      trainings->write(beat);
    }
    done = true;
  });
  while (!done) {
    const auto read = agents->read();  // nothing while the writer is held up inside a write
    if (!read) continue;
    REQUIRE(read->consumed_samples == 8 * read->iteration.value);
    REQUIRE(read->consumed_tokens == 1024 * read->iteration.value);
  }
  writer.join();
  CHECK(agents->read()->iteration == Iteration(20000));
}

TEST_CASE("heartbeat page: norms of groups of layers -> more than fit are left out") {
  const PagePath at;
  auto agents = HeartbeatPage::create(at.path);
  auto trainings = HeartbeatPage::open(at.path);
  Heartbeat beat;
  trainings->write(beat);
  CHECK(agents->read()->group_norms.empty());
  beat.norms_at = Iteration(70);
  beat.group_norms = {0.5F, 1.25F, std::numeric_limits<float>::quiet_NaN(), 8};
  trainings->write(beat);
  const auto read = agents->read();
  CHECK(read->norms_at == Iteration(70));
  REQUIRE(read->group_norms.size() == 4);
  CHECK(read->group_norms[1] == 1.25F);
  CHECK(read->group_norms[3] == 8);
  beat.group_norms.assign(kMostLayerGroups + 1, 3.0F);
  trainings->write(beat);
  CHECK(agents->read()->group_norms.empty());
  beat.group_norms.assign(kMostLayerGroups, 2.0F);
  trainings->write(beat);
  agents->request_save();  // what lies behind them is untouched
  CHECK(agents->read()->group_norms == std::vector<float>(kMostLayerGroups, 2.0F));
  CHECK(trainings->save_request() == 1);
  {
    std::fstream file(at.path, std::ios::in | std::ios::out | std::ios::binary);
    const std::uint32_t absurd = 0xFFFFFFFFu;
    file.seekp(160);
    file.write(reinterpret_cast<const char*>(&absurd), sizeof absurd);
  }
  CHECK(agents->read()->group_norms.size() == kMostLayerGroups);
}

TEST_CASE("step losses: norms of groups -> the largest of each, four digits, no NaN") {
  StepLosses losses;
  add(losses, {Iteration(1), 2.5, 1.0, {}, 0, 0, {0.123456, 3, 0.5}});
  add(losses, {Iteration(2), 2.5, 1.0, {}, 0, 0});
  add(losses, {Iteration(3), 2.5, 1.0, {}, 0, 0, {0.1, 7, std::nan("")}});
  CHECK(losses.groups == std::vector<double>{0.1235, 7, 0.5});
  CHECK(layer_group_name(0, 4) == "embedding");
  CHECK(layer_group_name(2, 4) == "layer 1");
  CHECK(layer_group_name(3, 4) == "final norm");
}

TEST_CASE("heartbeat page: more collectives than the ring holds -> the newest, oldest first") {
  const PagePath at;
  auto agents = HeartbeatPage::create(at.path);
  auto trainings = HeartbeatPage::open(at.path);
  CHECK_FALSE(agents->in_collective().has_value());
  for (int i = 1; i <= 100; ++i) {
    const auto number = trainings->enter_collective("all_reduce", 4096, Instant(Duration(i)));
    if (i < 100) trainings->leave_collective(number, Instant(Duration(i + 1)));
  }
  const auto records = agents->collectives();
  REQUIRE(records.size() == 64);
  CHECK(records.front().number == 37);
  CHECK(records.back().name == "all_reduce");
  CHECK_FALSE(records.back().left_at.has_value());
  CHECK(agents->in_collective() == true);
  trainings->leave_collective(100, Instant(Duration(101)));
  CHECK(agents->in_collective() == false);
}

TEST_CASE("heartbeat page: another file -> refused by name") {
  const PagePath at;
  CHECK_FALSE(HeartbeatPage::open(at.path).has_value());
  std::ofstream(at.path) << "no page";
  const auto refused = HeartbeatPage::open(at.path);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find(at.path) != std::string::npos);
}

TEST_CASE("heartbeat page: the Python client writes it -> the agent reads the same numbers") {
  const PagePath at;
  auto agents = HeartbeatPage::create(at.path);
  os::SpawnOptions python;
  python.argv = {
      "python3", "-c",
      "from heartbeat_client import Heartbeat\nbeat = Heartbeat()\nbeat.phase('iteration')\n"
      "beat.step(41, loss=2.5, seconds=0.5)\n"};
  python.environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                        {"PYTHONPATH", STOKER_SOURCE_DIR "/wire"},
                        {"STOKER_HEARTBEAT", at.path}};
  const auto ran = os::run_command(python, 60s);
  REQUIRE(ran);
  REQUIRE_MESSAGE(ran->status.ok(), ran->err);
  const auto read = agents->read();
  REQUIRE(read);
  CHECK(read->phase == Phase::Iteration);
  CHECK(read->iteration == Iteration(41));
  CHECK(read->loss == 2.5);
  CHECK(read->iteration_seconds == 0.5);
}

TEST_CASE("heartbeat page: killed agents' pages -> swept; a live page and a young one stay") {
  const PagePath at;
  const std::string folder = std::filesystem::path(at.path).parent_path();
  const auto make_old = [](const std::string& path) {
    const utimbuf hour_ago{std::time(nullptr) - 3600, std::time(nullptr) - 3600};
    REQUIRE(::utime(path.c_str(), &hour_ago) == 0);
  };
  { REQUIRE(HeartbeatPage::create(folder + "/stoker.gone.1.0")); }
  { REQUIRE(HeartbeatPage::create(folder + "/stoker.young.1.0")); }
  const auto live = HeartbeatPage::create(folder + "/stoker.live.1.0");
  REQUIRE(live);
  std::ofstream(folder + "/another") << "not ours";
  for (const char* name : {"/stoker.gone.1.0", "/stoker.live.1.0", "/another"})
    make_old(folder + name);
  CHECK(sweep_heartbeat_pages(folder) == 1);
  CHECK_FALSE(std::filesystem::exists(folder + "/stoker.gone.1.0"));
  for (const char* name : {"/stoker.young.1.0", "/stoker.live.1.0", "/another"})
    CHECK(std::filesystem::exists(folder + name));
  CHECK(sweep_heartbeat_pages(folder + "/nothing") == 0);
}
