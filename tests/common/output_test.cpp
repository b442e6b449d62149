// What `-o FILE` does to that which lies at the name: nothing but a file is ever replaced.
#include "common/os/output.hpp"

#include <fcntl.h>
#include <future>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using stoker::testing::Folder;

namespace {

Status put(const std::string& path, std::string_view text = "new", unsigned mode = 0600) {
  return os::write_output(path, text, os::Durability::Cached, mode);
}

std::string read(const std::string& path) {
  return os::read_file(path).value_or("(not to be read)");
}

struct stat look(const std::string& path) {
  struct stat info {};
  CHECK(::lstat(path.c_str(), &info) == 0);
  return info;
}

// What it says, and that nothing has changed at the path.
void check_refused(const std::string& path, const std::string& words) {
  const auto before = look(path);
  const auto done = put(path);
  REQUIRE_FALSE(done);
  CAPTURE(done.error().message());
  CHECK(done.error().message().find(words) != std::string::npos);
  CHECK(look(path).st_ino == before.st_ino);
  CHECK(look(path).st_mode == before.st_mode);
}

std::string piped(const std::string& path) {
  auto got = std::async(std::launch::async, [path] {
    const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char text[16] = {};
    const ssize_t n = ::read(file.get(), text, sizeof text);
    return std::string(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  });
  CHECK(put(path));
  return got.get();
}

bool is_root() {
  if (::geteuid() == 0) return true;
  std::puts("SKIPPED: only root can make devices and files of others");
  return false;
}

}  // namespace

TEST_CASE("output: nothing there, a file -> appears whole, with the mode that is asked for") {
  const Folder folder;
  REQUIRE(put(folder / "a"));
  CHECK(read(folder / "a") == "new");
  CHECK((look(folder / "a").st_mode & 07777) == 0600);
  const os::Fd before(::open((folder / "a").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(put(folder / "a", "newer"));
  CHECK(read(folder / "a") == "newer");
  CHECK(os::read_file("/proc/self/fd/" + std::to_string(before.get())).value_or("") == "new");
  CHECK_FALSE(put(folder / "no/a"));
}

TEST_CASE("output: a FIFO of ours -> written into, and it stays one") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(piped(folder / "pipe") == "new");
  CHECK(S_ISFIFO(look(folder / "pipe").st_mode));
  std::filesystem::create_symlink("pipe", folder / "link");
  CHECK(piped(folder / "link") == "new");
  CHECK(S_ISLNK(look(folder / "link").st_mode));
}

TEST_CASE(
    "output: a character device -> written into, and it stays one; a block device -> refused") {
  if (!is_root()) return;
  const Folder folder;
  REQUIRE(::mknod((folder / "null").c_str(), S_IFCHR | 0666, ::makedev(1, 3)) == 0);
  REQUIRE(::mknod((folder / "full").c_str(), S_IFCHR | 0666, ::makedev(1, 7)) == 0);
  REQUIRE(::mknod((folder / "disk").c_str(), S_IFBLK | 0600, ::makedev(7, 250)) == 0);
  const os::Fd usable(::open((folder / "null").c_str(), O_WRONLY | O_CLOEXEC));
  if (usable) CHECK(put(folder / "null"));
  if (usable) CHECK_FALSE(put(folder / "full"));
  CHECK(S_ISCHR(look(folder / "null").st_mode));
  CHECK(S_ISCHR(look(folder / "full").st_mode));
  check_refused(folder / "disk", "it is a block device; nothing is written");
}

TEST_CASE("output: a directory, a socket -> refused in one line") {
  const Folder folder;
  REQUIRE(std::filesystem::create_directory(folder / "folder"));
  check_refused(folder / "folder", "it is a directory; nothing is written");
  const os::Fd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "socket").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  check_refused(folder / "socket", "it is a socket; nothing is written");
}

TEST_CASE("output: our own link -> what it leads to is replaced, the link stays") {
  const Folder folder, far;
  const std::string file = far.write("report", "old");
  std::filesystem::create_symlink(file, folder / "absolute");
  REQUIRE(std::filesystem::create_directory(folder / "below"));
  std::filesystem::create_symlink("../absolute", folder / "below/relative");
  for (const char* name : {"absolute", "below/relative"}) {
    REQUIRE(put(folder / name, name));
    CHECK(read(file) == name);
    CHECK(S_ISLNK(look(folder / name).st_mode));
    CHECK(S_ISREG(look(file).st_mode));
  }
}

TEST_CASE("output: a link to nothing, in a circle, of another user -> refused") {
  const Folder folder;
  std::filesystem::create_symlink("gone", folder / "dangling");
  check_refused(folder / "dangling",
                "a symbolic link to " + folder / "gone" + ", which is not there");
  CHECK_FALSE(os::exists(folder / "gone"));
  std::filesystem::create_symlink("round", folder / "round");
  check_refused(folder / "round", "Too many levels");
  if (!is_root()) return;
  folder.write("file", "old");
  std::filesystem::create_symlink("file", folder / "theirs");
  REQUIRE(::lchown((folder / "theirs").c_str(), 54321, 54321) == 0);
  check_refused(folder / "theirs", "refused: it is a symbolic link of uid 54321");
  CHECK(read(folder / "file") == "old");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0666) == 0);
  REQUIRE(::lchown((folder / "pipe").c_str(), 54321, 54321) == 0);
  check_refused(folder / "pipe", "refused: it is a FIFO of uid 54321");
}

TEST_CASE("output: a link to an open file, as /dev/stdout is -> written on, never replaced") {
  const Folder folder;
  int fds[2];
  REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
  const os::Fd out(fds[0]), in(fds[1]);
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(in.get()), folder / "stdout");
  REQUIRE(put(folder / "stdout"));
  char text[16] = {};
  CHECK(::read(out.get(), text, sizeof text) == 3);
  folder.write("log", "before ");
  const os::Fd log(::open((folder / "log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const auto before = look(folder / "log");
  REQUIRE(put("/proc/self/fd/" + std::to_string(log.get())));
  CHECK(read(folder / "log") == "before new");
  CHECK(look(folder / "log").st_ino == before.st_ino);
}
