// The node's memory for snapshots: what is listed is whole, of this generation, and has its digest.
#include "worker/agent/node/memory.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "wire/memory_slot.hpp"

using namespace stoker;
using agent::NodeMemory;

namespace {

std::vector<std::string> paths_of(const std::string& text) {
  std::vector<std::string> paths(1);
  for (const char c : text)
    if (c == ':')
      paths.emplace_back();
    else
      paths.back() += c;
  return paths;
}

// As a rank does it, by the path.
void fill(const std::string& path, std::uint64_t iteration, wire::SlotState state,
          std::uint32_t generation = 2) {
  const os::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(fd);
  const std::string content = "shard and manifest";
  wire::SlotHead head;
  head.state = state;
  head.held = {Generation(generation), Attempt(1), Iteration(iteration), 1, 4};
  head.shard_bytes = 6, head.manifest_bytes = content.size() - 6;
  const auto numbers = wire::encode_slot(head);
  const std::string first(wire::digested_numbers(numbers));
  head.digest = xxh3_64(first + content);
  const auto written = wire::encode_slot(head);
  CHECK(::pwrite(fd.get(), written.data(), written.size(), 0) == 64);
  CHECK(::pwrite(fd.get(), content.data(), content.size(), wire::kSlotHeader) == 18);
}

}  // namespace

TEST_CASE("node memory: slots are private, and only whole ones of this generation are listed") {
  NodeMemory memory;
  const auto paths = paths_of(memory.slots_of(1).value());
  REQUIRE(paths.size() == wire::kSlotsOfRank);
  CHECK(memory.slots().size() == 2 * wire::kSlotsOfRank);
  CHECK(memory.slots_of(1).value() == memory.slots_of(1).value());
  for (const std::string& path : paths) {
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(info.st_size == 0);
  }
  CHECK(memory.complete() == 0);
  fill(paths[0], 40, wire::SlotState::Complete);
  fill(paths[1], 50, wire::SlotState::Writing);
  fill(paths[2], 60, wire::SlotState::Complete, 1);
  CHECK(memory.complete() == 2);
  const auto held = NodeMemory::look(memory.slots(), Generation(2));
  REQUIRE(held.held.size() == 1);
  CHECK(held.held[0].iteration == Iteration(40));
  CHECK(held.held[0].shard == 1);
  CHECK(held.damaged.empty());
}

TEST_CASE("node memory: content that was changed or cut short -> named, not listed") {
  NodeMemory memory;
  const auto paths = paths_of(memory.slots_of(0).value());
  fill(paths[0], 40, wire::SlotState::Complete);
  fill(paths[1], 50, wire::SlotState::Complete);
  fill(paths[2], 60, wire::SlotState::Complete);
  const os::Fd fd(::open(paths[0].c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(::pwrite(fd.get(), "S", 1, wire::kSlotHeader) == 1);
  CHECK(::truncate(paths[1].c_str(), wire::kSlotHeader + 10) == 0);
  const auto held = NodeMemory::look(memory.slots(), Generation(2));
  REQUIRE(held.held.size() == 1);
  CHECK(held.held[0].iteration == Iteration(60));
  REQUIRE(held.damaged.size() == 1);
  CHECK(held.damaged[0].find("shard 1 of iteration 40") != std::string::npos);
}
