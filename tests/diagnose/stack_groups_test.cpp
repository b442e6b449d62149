// Stacks of all ranks: equal ones are one group, the odd ranks are named.
#include "diagnose/cause/stack_groups.hpp"

#include <doctest/doctest.h>

using namespace stoker::diagnose;

namespace {

std::string waiting(int pid, const std::string& address) {
  return "process " + std::to_string(pid) + " stoker-train --config train.yaml\n" + "  thread " +
         std::to_string(pid) + " stoker-train state S wchan futex_wait syscall 202 " + address +
         " 0x80\n[<0>] futex_wait+0x5c/0x130\n" + "frames by gdb:\n[New LWP 1]\nThread 2 (Thread " +
         address + " (LWP 9) \"w\"):\n#0  " + address +
         " in epoll_wait (epfd=" + std::to_string(pid) +
         ") at ../sysdeps/epoll_wait.c:30\n#1  uv_run () from /lib/libuv.so\n";
}

}  // namespace

TEST_CASE("stack_groups: one rank elsewhere -> the odd one out") {
  const std::string stopped =
      "process 7 x\n  thread 7 stoker-train state T wchan do_signal_stop syscall -1 0x0\n";
  const auto report = group_stacks({{"n01", 0, waiting(100, "0x7f01")},
                                    {"n01", 1, waiting(200, "0x7fab")},
                                    {"n02", 2, stopped},
                                    {"n02", 3, waiting(300, "0x1234")}});
  REQUIRE(report.groups.size() == 2);
  CHECK(report.groups[0].members.size() == 3);
  REQUIRE(report.odd.size() == 1);
  CHECK(report.odd[0] == StackGroup::Member{"n02", 2});
  CHECK(report.groups[1].threads ==
        std::vector<std::string>{"thread stoker-train, stopped, wchan do_signal_stop, syscall -1"});
}

TEST_CASE("stack_groups: no group with more than half -> no rank is odd") {
  const auto report = group_stacks({{"a", 0, "#0 f ()\n"}, {"a", 1, "#0 g ()\n"}});
  CHECK(report.groups.size() == 2);
  CHECK(report.odd.empty());
  CHECK(group_stacks({}).groups.empty());
}

TEST_CASE("stack_groups: frames of gdb, eu-stack and py-spy -> functions without addresses") {
  CHECK(reduce_stack("Thread 1 (LWP 5):\n#0  0x00007f in a::wait (this=0x5, n=3) at "
                     "/b/store.cpp:12\n#1  main () at m.c:4\n") ==
        std::vector<std::string>{"a::wait store.cpp:12\n  main m.c:4"});
  CHECK(reduce_stack("TID 77:\n#0  0x7f01 poll\n#1  0x7f02 main\nTID 78:\n#0  0x7f03 poll\n") ==
        std::vector<std::string>{"poll", "poll\n  main"});
  CHECK(reduce_stack("Thread 140 (idle): \"MainThread\"\n    step (train.py:120)\n    main "
                     "(train.py:3)\n") ==
        std::vector<std::string>{"step (train.py:120)\n  main (train.py:3)"});
  CHECK(
      reduce_stack("Current thread 0x00007f12 (most recent call first):\n  File \"/a b/train.py\", "
                   "line 120 in step\n  File \"/a/train.py\", line 3 in <module>\n\nThread 0x7f "
                   "(most recent call first):\n  File \"x.py\", line 1 in loader\n") ==
      std::vector<std::string>{"loader (x.py:1)", "step (train.py:120)\n  <module> (train.py:3)"});
  CHECK(reduce_stack("File \"\n File \", line  in \nFile \"a\", line").size() <= 1);
}

TEST_CASE("stack_groups: a stopped rank of two, or beside a special rank 0 -> the odd one") {
  const std::string waits = "  thread 1 train state S wchan poll syscall 7\n";
  const std::string frozen = "  thread 2 train state T wchan stop syscall 7\n";
  const std::string store = waits + "  thread 3 store state S wchan poll syscall 7\n";
  CHECK(group_stacks({{"a", 0, waits}, {"b", 1, frozen}}).odd ==
        std::vector<StackGroup::Member>{{"b", 1}});
  CHECK(group_stacks({{"a", 0, store}, {"a", 1, waits}, {"b", 2, frozen}, {"b", 3, waits}}).odd ==
        std::vector<StackGroup::Member>{{"b", 2}});
  CHECK(group_stacks({{"a", 0, frozen}, {"b", 1, frozen}}).odd.empty());
}

TEST_CASE("stack_groups: rubbish -> bounded, no crash") {
  std::string rubbish;
  for (int i = 0; i < 20000; ++i) rubbish += "#" + std::string(300, '(') + "\nthread\n[<\n";
  for (int i = 0; i < 2000; ++i)
    rubbish +=
        "  thread " + std::to_string(i) + " c" + std::to_string(i) + " state S wchan 0 syscall x\n";
  CHECK(reduce_stack(rubbish).size() <= 512);
  CHECK(reduce_stack(std::string(100000, '\0')).empty());
}
