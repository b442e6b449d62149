// Mount points by the kernel's table.
#include "common/os/mount_point.hpp"

#include <doctest/doctest.h>

#include "common/os/fuse_mount.hpp"

using namespace stoker;

namespace {

std::string place_in(std::string_view line) {
  const auto mount = os::parse_mount(line);
  return mount ? mount->place : "";
}

}  // namespace

TEST_CASE("mount point: lines of mountinfo -> the place, its escapes read; torn ones -> none") {
  CHECK(place_in("36 35 98:0 /mnt1 /mnt/parent rw,noatime master:1 - ext3 /dev/root rw") ==
        "/mnt/parent");
  CHECK(place_in("22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw") == "/");
  CHECK(place_in("90 22 0:44 / /data/my\\040disk\\134x rw - nfs4 srv:/x rw") == "/data/my disk\\x");
  CHECK(place_in("90 22 0:44 / /odd\\9 rw - nfs4 srv:/x rw") == "/odd\\9");
  for (const char* torn : {"", "36", "36 35 98:0 /mnt1", "36 35 98:0 / relative rw"})
    CHECK(place_in(torn) == "");
}

TEST_CASE("mount point: a folder and what lies below it; a longer name is another folder") {
  CHECK(os::is_at_or_below("/a/b", "/a/b"));
  CHECK(os::is_at_or_below("/a/b/c", "/a/b"));
  CHECK(os::is_at_or_below("/a", "/"));
  CHECK_FALSE(os::is_at_or_below("/a/bc", "/a/b"));
  CHECK_FALSE(os::is_at_or_below("/a", "/a/b"));
}

TEST_CASE("mount point: of this machine -> /proc for what is there, / for what is nowhere else") {
  CHECK(os::mount_point_of("/proc/self/status") == "/proc");
  CHECK(os::is_at_or_below("/no/such/folder", os::mount_point_of("/no/such/folder")));
}
