// When the dead-man's switch is called, and with which URL.
#include "alerts/dead_man.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::alerts;

namespace {

Instant at(Duration since) {
  return Instant{} + since;
}

}  // namespace

TEST_CASE("dead man: a run that is observed -> start once, then alive every period") {
  DeadManState state;
  CHECK(next_call(state, true, 5min, at(0s)) == DeadManCall::Start);
  CHECK(next_call(state, true, 5min, at(0s)) == DeadManCall::Alive);
  CHECK(next_call(state, true, 5min, at(0s)) == DeadManCall::None);
  CHECK(next_call(state, true, 5min, at(299s)) == DeadManCall::None);
  CHECK(next_call(state, true, 5min, at(300s)) == DeadManCall::Alive);
  CHECK(next_call(state, true, 5min, at(301s)) == DeadManCall::None);
}

TEST_CASE("dead man: a run that is no longer observed -> fail at once, alive when it is again") {
  DeadManState state;
  CHECK(next_call(state, true, 5min, at(0s)) == DeadManCall::Start);
  CHECK(next_call(state, true, 5min, at(0s)) == DeadManCall::Alive);
  CHECK(next_call(state, false, 5min, at(10s)) == DeadManCall::Fail);
  CHECK(next_call(state, false, 5min, at(20s)) == DeadManCall::None);
  CHECK(next_call(state, false, 5min, at(310s)) == DeadManCall::Fail);
  CHECK(next_call(state, true, 5min, at(320s)) == DeadManCall::Alive);
}

TEST_CASE("dead man: a daemon that never observed the run -> start and fail, never alive") {
  DeadManState state;
  CHECK(next_call(state, false, 5min, at(0s)) == DeadManCall::Start);
  CHECK(next_call(state, false, 5min, at(0s)) == DeadManCall::Fail);
  CHECK(next_call(state, false, 5min, at(60s)) == DeadManCall::None);
}

TEST_CASE("dead man: a call that did not arrive -> again after 30 s, sooner with a short period") {
  DeadManState state;
  CHECK(next_call(state, true, 5min, at(0s)) == DeadManCall::Start);
  CHECK(next_call(state, true, 5min, at(0s)) == DeadManCall::Alive);
  call_failed(state, 5min, at(1s));
  CHECK(next_call(state, true, 5min, at(30s)) == DeadManCall::None);
  CHECK(next_call(state, true, 5min, at(31s)) == DeadManCall::Alive);
  call_failed(state, 2s, at(40s));
  CHECK(next_call(state, true, 2s, at(42s)) == DeadManCall::Alive);
}

TEST_CASE("dead man: the URL -> the call behind the path, the id behind the query") {
  CHECK(dead_man_url("https://h/ping/u", DeadManCall::Alive, "i") == "https://h/ping/u?rid=i");
  CHECK(dead_man_url("https://h/ping/u/", DeadManCall::Fail, "i") == "https://h/ping/u/fail?rid=i");
  CHECK(dead_man_url("https://h/p?key=1", DeadManCall::Start, "i") ==
        "https://h/p/start?key=1&rid=i");
}
