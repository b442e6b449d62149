#include "common/os/memory_room.hpp"

#include <doctest/doctest.h>

#include "tests/folder.hpp"

using namespace stoker;
using stoker::testing::Folder;

namespace {

struct Host : Folder {
  Host() {
    for (const char* folder : {"proc/self", "groups/job/step", "groups/memory/job"})
      std::filesystem::create_directories(path + "/" + folder);
    write("proc/meminfo", "MemTotal: 100000 kB\nMemAvailable:   50000 kB\n");
  }
  [[nodiscard]] os::MemoryRoom room() const {
    return os::memory_room(*this / "proc", *this / "groups").value();
  }
};

}  // namespace

TEST_CASE("memory room: the host's available memory -> unless a control group has less") {
  const Host host;
  CHECK(host.room().free == 50000 * 1024);
  CHECK(!host.room().limit);
  host.write("proc/self/cgroup", "0::/job/step\n");
  host.write("groups/job/step/memory.max", "max\n");
  host.write("groups/job/step/memory.current", "900\n");
  CHECK(host.room().free == 50000 * 1024);
  host.write("groups/job/memory.max", "1000000\n");
  host.write("groups/job/memory.current", "700000\n");
  host.write("groups/job/memory.stat", "anon 1\ninactive_file 100000\n");
  CHECK(host.room().free == 400000);
  CHECK(host.room().limit == 1000000);
  CHECK(host.room().used == 600000);
}

TEST_CASE("memory room: control groups of version 1, a full one, and none that can be read") {
  const Host host;
  host.write("proc/self/cgroup", "5:devices:/x\n4:memory:/job\n0::/\n");
  host.write("groups/memory/job/memory.limit_in_bytes", "5000\n");
  host.write("groups/memory/job/memory.usage_in_bytes", "9000\n");
  CHECK(host.room().free == 0);
  host.write("proc/self/cgroup", "4:memory:/elsewhere\n");
  CHECK(host.room().free == 50000 * 1024);
  CHECK(!os::memory_room(host / "nothing", host / "groups"));
}
