// Groups the stacks of all ranks: what does a rank do that the others do not? Pure. A stack is
// reduced to what means the same on every node: per thread its name, state, wait channel, system
// call and the functions of its frames; without addresses, process ids and arguments. Ranks with
// the same set of threads are one group. Reads what stoker-agent writes (from /proc, gdb, eu-stack)
// and the forms of py-spy and faulthandler.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::diagnose {

struct RankStack {
  std::string node;
  std::uint32_t rank = 0;
  std::string text;  // hostile: any bytes
};

struct StackGroup {
  struct Member {
    std::string node;
    std::uint32_t rank = 0;
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;       // by rank
  std::vector<std::string> threads;  // distinct ones, each a few lines, outermost frame last
};

struct StackReport {
  std::vector<StackGroup> groups;  // largest first, then by lowest rank
  // Ranks that are stopped or stuck in the kernel, when at least half are not; else those outside
  // the group that holds more than half.
  std::vector<StackGroup::Member> odd;
};

StackReport group_stacks(const std::vector<RankStack>& stacks);

// The threads of one stack in their reduced form, sorted, without repetition.
std::vector<std::string> reduce_stack(std::string_view text);

}  // namespace stoker::diagnose
