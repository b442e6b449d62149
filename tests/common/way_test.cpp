// Who else could lead a path elsewhere.
#include "common/os/way.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/own_files.hpp"
#include "common/os/secret.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using stoker::testing::Folder;
namespace fs = std::filesystem;

namespace {
constexpr uid_t kAnother = 54321;

bool is_root() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: to give files and links to another user needs root");
  return false;
}
}  // namespace

TEST_CASE("secret: behind another user's link -> refused; behind our own -> read") {
  const testing::Folder folder;
  const std::string path = folder.write("secret", "abc\n");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  CHECK(os::read_secret(path).value() == "abc");
  std::filesystem::create_symlink(path, folder / "token");
  CHECK(os::read_secret(folder / "token").value() == "abc");
  CHECK_FALSE(os::read_secret(folder / "none").has_value());
  if (::geteuid() != 0) return;
  REQUIRE(::lchown((folder / "token").c_str(), 54321, 54321) == 0);
  const auto refused = os::read_secret(folder / "token");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("54321") != std::string::npos);
}

TEST_CASE("way: links of our own, of the system, or nothing there -> fine; a circle -> an error") {
  const Folder folder;
  fs::create_directories(folder / "a/b");
  fs::create_symlink("a/b", folder / "near");
  fs::create_symlink(folder / "near", folder / "far");
  CHECK(os::check_way(folder / "a/b"));
  CHECK(os::check_way(folder / "far/to/come"));
  CHECK(os::check_way("/proc/self/root"));
  CHECK(os::check_way("not/there"));
  fs::create_symlink(folder / "circle", folder / "circle");
  const auto circle = os::check_way(folder / "circle");
  REQUIRE_FALSE(circle);
  CHECK_FALSE(os::is_refusal(circle.error()));
  CHECK_FALSE(os::check_way(folder.write("file", "") + "/below"));
}

TEST_CASE("way: a link of another user anywhere on it -> refused, also behind links of our own") {
  if (!is_root()) return;
  const Folder folder;
  fs::create_directories(folder / "target/below");
  fs::create_symlink(folder / "target", folder / "theirs");
  REQUIRE(::lchown((folder / "theirs").c_str(), kAnother, kAnother) == 0);
  fs::create_symlink("theirs", folder / "ours");
  for (const std::string& path :
       {folder / "theirs", folder / "theirs/below", folder / "ours/below/deeper"}) {
    const auto way = os::check_way(path);
    REQUIRE_FALSE(way);
    CHECK(os::is_refusal(way.error()));
    CHECK(way.error().message().find("symbolic link of uid 54321") != std::string::npos);
  }
  // In a user namespace root's links are the overflow user's; another's folder is no such place.
  REQUIRE(::lchown((folder / "theirs").c_str(), 65534, 65534) == 0);
  CHECK_FALSE(os::check_way(folder / "theirs"));
  REQUIRE(::chown(folder.path.c_str(), 65534, 65534) == 0);
  CHECK(os::check_way(folder / "theirs"));
}

TEST_CASE("way: a folder before a path that others may write -> named, unless sticky over ours") {
  const Folder above;  // as /tmp
  REQUIRE(::chmod(above.path.c_str(), 01777) == 0);
  const auto real = [](const std::string& path) { return fs::canonical(path).string(); };
  const std::string folder = above / "ours";
  fs::create_directories(folder + "/a");
  CHECK(os::open_folder_before("/etc/new", 0).empty());
  CHECK(os::open_folder_before(folder + "/a/rest.sock", ::geteuid()).empty());
  CHECK(os::open_folder_before(folder + ".sock", ::geteuid()) == real(above.path));
  REQUIRE(::chmod((folder + "/a").c_str(), 01777) == 0);
  CHECK(os::open_folder_before(folder + "/a/rest.sock", ::geteuid()) == real(folder + "/a"));
  if (::geteuid() != 0) return;
  REQUIRE(::chmod((folder + "/a").c_str(), 0755) == 0);
  REQUIRE(::chown((folder + "/a").c_str(), kAnother, kAnother) == 0);
  CHECK(os::open_folder_before(folder + "/a/rest.sock", 0) == real(folder + "/a"));
  CHECK(os::open_folder_before(folder + "/a/rest.sock", kAnother).empty());  // in a folder of ours
  REQUIRE(::chown(folder.c_str(), kAnother, kAnother) == 0);
  CHECK(os::open_folder_before(folder + "/a/rest.sock", kAnother) == real(above.path));
}

TEST_CASE("way: a file behind links of our own -> opened; behind another user's -> refused") {
  const Folder folder;
  fs::create_directories(folder / "logs/deep");
  folder.write("logs/deep/out.log", "here");
  fs::create_symlink("logs", folder / "ours");
  fs::create_symlink("deep/out.log", folder / "logs/latest");
  const auto size_of = [](const std::string& path) -> off_t {
    const auto opened = os::open_on_way(path, O_RDONLY);
    REQUIRE_MESSAGE(opened, path);
    struct stat info {};
    return *opened && ::fstat((**opened).get(), &info) == 0 ? info.st_size : -1;
  };
  CHECK(size_of(folder / "ours/latest") == 4);
  CHECK(size_of(folder / "ours/../logs/./deep/out.log") == 4);
  CHECK(size_of(folder / "logs/none") == -1);
  CHECK(size_of(folder / "logs/deep/out.log/below") == -1);
  CHECK_FALSE(os::open_on_way("/", O_RDONLY));
  fs::create_symlink(folder / "circle", folder / "circle");
  CHECK_FALSE(os::open_on_way(folder / "circle", O_RDONLY));
  if (::geteuid() != 0) return;
  for (const char* link : {"ours", "logs/latest"}) {
    REQUIRE(::lchown((folder / link).c_str(), kAnother, kAnother) == 0);
    const auto opened = os::open_on_way(folder / "ours/latest", O_RDONLY);
    REQUIRE_FALSE(opened);
    CHECK(os::is_refusal(opened.error()));
    REQUIRE(::lchown((folder / link).c_str(), 0, 0) == 0);
  }
}

TEST_CASE("way: put there by another user -> refused, unless the folder is that user's") {
  if (!is_root()) return;
  const Folder folder;
  fs::create_directories(folder / "iter_0000500");
  CHECK(os::check_put_here(folder / "iter_0000500"));
  REQUIRE(::chown((folder / "iter_0000500").c_str(), kAnother, kAnother) == 0);
  const auto theirs = os::check_put_here(folder / "iter_0000500");
  REQUIRE_FALSE(theirs);
  CHECK(os::is_refusal(theirs.error()));
  CHECK(theirs.error().message().find("belongs to uid 54321") != std::string::npos);
  REQUIRE(::chown(folder.path.c_str(), kAnother, kAnother) == 0);
  CHECK(os::check_put_here(folder / "iter_0000500"));
  CHECK_FALSE(os::check_put_here(folder / "missing"));
}
