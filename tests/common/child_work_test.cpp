// Work in a child process: its answer, its death, and that the caller does not wait for a late one.
#include "common/os/child_work.hpp"

#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <unistd.h>

using namespace stoker;

TEST_CASE("child work: an answer -> it is returned whole, up to 64 KiB") {
  CHECK(os::work_in_child(10s, [] { return std::string("done"); }).value() == "done");
  CHECK(os::work_in_child(10s, [] { return std::string(); }).value().empty());
  CHECK(os::work_in_child(10s, [] { return std::string(60'000, 'x'); }).value() ==
        std::string(60'000, 'x'));
  CHECK(os::work_in_child(10s, [] { return std::string(1u << 20, 'x'); }).value().size() ==
        64u << 10);
}

TEST_CASE("child work: it is another process, and what it prints goes nowhere") {
  const auto pid = os::work_in_child(10s, [] {
    const char text[] = "this must not be seen\n";
    (void)!::write(1, text, sizeof text - 1);
    return std::to_string(::getpid());
  });
  CHECK(pid.value() != std::to_string(::getpid()));
}

TEST_CASE("child work: it does not come back -> an error in time, and it is ended") {
  const auto began = std::chrono::steady_clock::now();
  const auto late = os::work_in_child(200ms, [] {
    ::sleep(100);
    return std::string("late");
  });
  CHECK(late.error().message() == "no answer for 200ms");
  CHECK(std::chrono::steady_clock::now() - began < 50s);
}

TEST_CASE("child work: it dies -> an error") {
  const auto died = os::work_in_child(10s, [] {
    ::raise(SIGKILL);
    return std::string("alive");
  });
  CHECK(died.error().message() == "the process that was to do it ended without an answer");
}
