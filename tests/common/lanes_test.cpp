// Lanes: one that hangs holds no other up, and nothing of it is done late.
#include "common/lanes.hpp"

#include <atomic>
#include <condition_variable>
#include <doctest/doctest.h>
#include <numeric>

using namespace stoker;

namespace {

// Opens once.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    news_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  bool open_ = false;
};

using Numbers = Lanes<int>;

std::vector<Numbers::Done> wait_for(Numbers& lanes, std::size_t count) {
  std::vector<Numbers::Done> all;
  while (all.size() < count) {
    for (auto& one : lanes.collect()) all.push_back(std::move(one));
    std::this_thread::sleep_for(1ms);
  }
  return all;
}

}  // namespace

TEST_CASE("lanes: work of one lane -> done in order; its results wake the waiting thread") {
  std::atomic<int> woken = 0;
  Numbers lanes([&] { ++woken; });
  std::vector<int> order;  // of one thread at a time
  for (int i = 0; i < 50; ++i)
    lanes.start(static_cast<std::uint64_t>(i), "a", 1min, [&order, i]() -> Result<int> {
      order.push_back(i);
      return i * 2;
    });
  const auto all = wait_for(lanes, 50);
  for (int i = 0; i < 50; ++i) {
    const auto at = static_cast<std::size_t>(i);
    CHECK(order[at] == i);
    CHECK(all[at].first == at);
    CHECK(*all[at].second == i * 2);
  }
  CHECK(woken == 50);
  CHECK(lanes.under_way() == 0);
  CHECK(lanes.patience(5s) == 5s);
}

TEST_CASE("lanes: one that hangs -> the others go on; its own fail in time and are never done") {
  auto gate = std::make_shared<Gate>(), gone = std::make_shared<Gate>();
  auto late = std::make_shared<std::atomic<int>>(0);
  {
    Numbers lanes([] {});
    lanes.start(1, "stuck", 50ms, [gate, gone]() -> Result<int> {
      gate->pass();
      gone->open();
      return 1;
    });
    lanes.start(2, "stuck", 50ms, [late]() -> Result<int> { return ++*late; });
    lanes.start(3, "other", 1min, []() -> Result<int> { return fail("its own reason"); });
    CHECK(lanes.patience(1min) <= 50ms);
    const auto all = wait_for(lanes, 3);
    CHECK(all[0].first == 3);
    CHECK(all[0].second.error().what == "its own reason");
    for (const std::size_t i : {1u, 2u}) {
      CHECK(all[i].first == i);
      CHECK(all[i].second.error().message().find("no answer for 50ms") != std::string::npos);
    }
    lanes.start(4, "stuck", 1min, [late]() -> Result<int> { return ++*late; });
    const auto at_once = wait_for(lanes, 1);
    CHECK(at_once[0].first == 4);
    CHECK(at_once[0].second.error().what.find("no answer for") != std::string::npos);
    gate->open();
    gone->pass();
    while (lanes.finish(1ms) == false) std::this_thread::sleep_for(1ms);
    lanes.start(5, "stuck", 1min, [late]() -> Result<int> { return 10 + *late; });
    const auto after = wait_for(lanes, 1);  // the late result of 1 is dropped
    CHECK(after[0].first == 5);
    CHECK(*after[0].second == 10);
  }
  gone->pass();
  auto begun = std::make_shared<Gate>();
  auto held = std::make_shared<Gate>(), ended = std::make_shared<Gate>();
  {
    Numbers lanes([] { FAIL("woken after its end"); });
    lanes.start(1, "stuck", 1min, [begun, held, ended]() -> Result<int> {
      begun->open();
      held->pass();
      ended->open();
      return 1;
    });
    begun->pass();
    CHECK_FALSE(lanes.finish(1ms));
  }
  held->open();
  ended->pass();
  while (lanes_running > 0) std::this_thread::sleep_for(1ms);  // the next test counts threads
}

TEST_CASE("lanes: a thousand lanes, of which some hang -> at most 64 threads, all others done") {
  auto gate = std::make_shared<Gate>();
  Numbers lanes([] {});
  const int before = lanes_running;
  for (int i = 0; i < 1000; ++i)
    lanes.start(static_cast<std::uint64_t>(i), std::to_string(i), 1min, [gate, i]() -> Result<int> {
      if (i % 50 == 0) gate->pass();  // 20 of them
      return i;
    });
  CHECK(lanes_running - before <= 64);
  CHECK(wait_for(lanes, 980).size() == 980);
  gate->open();
  CHECK(wait_for(lanes, 20).size() == 20);
  CHECK(lanes.finish(10s));
  CHECK(lanes_running == before);
}

TEST_CASE(
    "lanes: a lane that waits for a thread, given up and asked again -> done once, in order") {
  auto gate = std::make_shared<Gate>();
  Numbers lanes([] {});
  for (std::uint64_t i = 0; i < 64; ++i)  // no thread is left
    lanes.start(i, std::to_string(i), 1min, [gate]() -> Result<int> {
      gate->pass();
      return 0;
    });
  lanes.start(100, "late", 0ns, []() -> Result<int> { return 1; });
  CHECK(wait_for(lanes, 1).size() == 1);  // given up
  auto done = std::make_shared<std::vector<int>>();
  for (int i = 0; i < 50; ++i)
    lanes.start(101 + static_cast<std::uint64_t>(i), "late", 1min, [done, i]() -> Result<int> {
      done->push_back(i);  // one thread at a time
      std::this_thread::sleep_for(1ms);
      return i;
    });
  gate->open();
  CHECK(wait_for(lanes, 64 + 50).size() == 64 + 50);
  std::vector<int> wanted(50);
  std::iota(wanted.begin(), wanted.end(), 0);
  CHECK(*done == wanted);
}
