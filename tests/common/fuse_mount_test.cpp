// Files that a program of another user shows, with an owner and a mode of its choice.
#include "common/os/fuse_mount.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/secret.hpp"
#include "common/os/way.hpp"
#include "common/os/writers.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using stoker::testing::Folder;

namespace {

constexpr unsigned kStranger = 54321;
constexpr std::string_view kText = "what the program shows";

template <class... Parts>
std::string bytes_of(const Parts&... parts) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&parts), sizeof parts), ...);
  return bytes;
}

fuse_attr attributes(std::uint64_t node, mode_t mode) {
  fuse_attr attr{};
  attr.ino = node;
  attr.size = kText.size();
  attr.mode = mode;
  attr.nlink = 1;
  attr.blksize = 4096;
  return attr;  // root's
}

// A file or a folder with one file, `name`, shown by this test on behalf of `user`.
class Shown {
 public:
  Shown(std::string path, unsigned user) : path_(std::move(path)) {
    is_folder_ = std::filesystem::is_directory(path_);
    device_.reset(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const auto options = fmt::format("fd={},rootmode={},user_id={},group_id={},allow_other",
                                     device_.get(), is_folder_ ? "40000" : "100000", user, user);
    mounted_ = device_ &&
               ::mount("shown", path_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
    if (mounted_) server_ = std::thread([this] { serve(); });
  }
  ~Shown() {
    if (!mounted_) return;
    ::umount2(path_.c_str(), MNT_DETACH);
    server_.join();  // the device ends with the mount
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  [[nodiscard]] bool is_mounted() const { return mounted_; }

 private:
  void serve() const {
    std::string buffer(1u << 17, '\0');
    for (;;) {
      const ssize_t got = ::read(device_.get(), buffer.data(), buffer.size());
      if (got < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) continue;
      if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;
      fuse_in_header in{};
      std::memcpy(&in, buffer.data(), sizeof in);
      if (in.opcode == FUSE_FORGET || in.opcode == FUSE_BATCH_FORGET) continue;
      const auto body = answer(in);
      fuse_out_header out{};
      out.unique = in.unique;
      out.error = body ? 0 : -ENOSYS;
      out.len = static_cast<std::uint32_t>(sizeof out + (body ? body->size() : 0));
      const std::string reply = bytes_of(out) + body.value_or("");
      if (::write(device_.get(), reply.data(), reply.size()) < 0 && errno != ENOENT) return;
    }
  }
  // FUSE_STATFS is among the requests that are answered with an error.
  [[nodiscard]] std::optional<std::string> answer(const fuse_in_header& in) const {
    const bool is_root = in.nodeid == FUSE_ROOT_ID;
    const mode_t mode = is_root && is_folder_ ? S_IFDIR | 0755 : S_IFREG | 0600;
    switch (in.opcode) {
      case FUSE_INIT: {
        fuse_init_out init{};
        init.major = 7;
        init.minor = 31;
        init.max_write = 4096;
        return bytes_of(init);
      }
      case FUSE_GETATTR: {
        fuse_attr_out out{};
        out.attr = attributes(in.nodeid, mode);
        return bytes_of(out);
      }
      case FUSE_LOOKUP: {
        fuse_entry_out out{};
        out.nodeid = 2;
        out.attr = attributes(2, S_IFREG | 0600);
        return bytes_of(out);
      }
      case FUSE_OPEN:
      case FUSE_OPENDIR: {
        fuse_open_out out{};
        out.open_flags = FOPEN_DIRECT_IO;
        return bytes_of(out);
      }
      case FUSE_READ: return std::exchange(is_read_, !is_read_) ? "" : std::string(kText);
      case FUSE_RELEASE:
      case FUSE_RELEASEDIR:
      case FUSE_FLUSH: return "";
      default: return std::nullopt;
    }
  }

  std::string path_;
  bool is_folder_ = false, mounted_ = false;
  mutable bool is_read_ = false;
  os::Fd device_;
  std::thread server_;
};

bool can_mount(const Folder& folder) {
  const bool can = ::geteuid() == 0 && Shown(folder.path, kStranger).is_mounted();
  if (!can) std::puts("SKIPPED: to mount a FUSE file system needs root and /dev/fuse");
  return can;
}

bool refuses(const Status& status, const std::string& path, const std::string& who) {
  return !status && os::is_refusal(status.error()) &&
         status.error().message() ==
             path + ": refused: it is on a FUSE mount of " + who +
                 ", who can forge its owner and mode; unmount it, or name another file; FUSE "
                 "mounts of root and root count";
}

}  // namespace

TEST_CASE("fuse mount: lines of mountinfo -> who mounted it, of FUSE alone") {
  const auto user = [](std::string_view line) -> std::string {
    const auto mount = os::parse_mount(line);
    if (!mount) return "none";
    if (!mount->is_fuse) return "no fuse";
    return mount->user ? std::to_string(*mount->user) : "unknown";
  };
  CHECK(user("27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resv_strict") == "no fuse");
  CHECK(user("129 109 0:39 / /tmp/m1 rw,nosuid,nodev,relatime - fuse evil "
             "rw,user_id=1000,group_id=1000") == "1000");
  CHECK(user(R"(130 109 0:40 / /tmp/a\040b rw,nosuid,nodev shared:7 master:2 - fuse.sshfs )"
             R"(a\040b\043c\012-\134 rw,user_id=1000,group_id=1000,allow_other)") == "1000");
  CHECK(user("341 27 0:52 / /jfs rw,relatime shared:179 - fuse.juicefs JuiceFS:team "
             "rw,user_id=0,group_id=0,default_permissions,allow_other") == "0");
  CHECK(user("51 27 8:17 / /media/disk rw,nosuid - fuseblk /dev/sdb1 "
             "rw,user_id=1001,group_id=0,allow_other,blksize=4096") == "1001");
  CHECK(user("60 27 0:53 / /s rw - fuse  rw,user_id=7,group_id=7") == "7");  // no source
  CHECK(user("60 27 0:53 / /s rw - virtiofs shared rw") == "no fuse");       // root's
  CHECK(user("60 27 0:53 / /s rw - fusectl fusectl rw") == "no fuse");
  CHECK(os::parse_mount("129 109 0:39 / /m rw - fuse x rw,user_id=1")->id == 129);
}

TEST_CASE("fuse mount: a line that is torn, or names two users -> nothing, or unknown") {
  for (const char* torn : {"", "129", "129 109 0:39 / /m rw", "129 109 0:39 / /m rw - fuse x",
                           "x 109 0:39 / /m rw - fuse x rw", "129 109 0:39 / - rw fuse x rw",
                           "129 109 0:39 / /m rw - fuse x y rw,user_id=0"})
    CHECK_MESSAGE(!os::parse_mount(torn), torn);
  for (const char* options : {"rw", "rw,user_id=", "rw,user_id=-1", "rw,user_id=0x0",
                              "rw,user_id=0,user_id=1000", "rw,user_id=4294967296"}) {
    const auto mount = os::parse_mount(std::string("129 109 0:39 / /m rw - fuse x ") + options);
    REQUIRE(mount);
    CHECK_MESSAGE(!mount->user, options);
  }
}

TEST_CASE("fuse mount: a stranger's file that says it is root's -> refused by all who judge") {
  const Folder folder;
  if (!can_mount(folder)) return;
  const std::string path = folder.write("file", "ours");
  CHECK(os::check_own(path));
  const Shown shown(path, kStranger);
  REQUIRE(shown.is_mounted());
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file);
  REQUIRE(os::read_open_file(file.get(), path, 100).value_or("") == kText);
  const std::string who = "uid 54321";
  CHECK(os::forger_of(file.get()) == who);
  CHECK(refuses(os::check_own(path), path, who));
  CHECK(refuses(os::check_own(file.get(), path), path, who));
  CHECK(refuses(os::check_own_target(path), path, who));
  CHECK(refuses(os::check_owner(path), path, who));
  CHECK(refuses(os::check_owner(file.get(), path), path, who));
  CHECK(refuses(os::check_put_here(path), path, who));
  CHECK(refuses(os::check_entries(folder.path), path, who));
  CHECK_FALSE(os::read_own_file(folder.path, "file", 100));
  CHECK_FALSE(os::read_secret(path));
  CHECK_FALSE(os::read_guarded_file(path, 100));
  CHECK(os::other_writer(path) == who + " (by a FUSE mount)");
  CHECK(os::check_own(folder.path));
}

TEST_CASE("fuse mount: a stranger's folder that says it is root's -> refused, and all in it") {
  const Folder folder;
  if (!can_mount(folder)) return;
  const std::string path = folder / "folder";
  std::filesystem::create_directory(path);
  CHECK(os::check_keeps_ours(path));
  CHECK(os::open_folder_before(path + "/x", 0).empty());
  const Shown shown(path, kStranger);
  REQUIRE(shown.is_mounted());
  CHECK(refuses(os::check_keeps_ours(path), path, "uid 54321"));
  CHECK(refuses(os::check_own(path + "/x"), path + "/x", "uid 54321"));
  CHECK(os::open_folder_before(path + "/x", 0) == path);
  const auto closed = os::close_to_others(path);
  CHECK((!closed && os::is_refusal(closed.error())));
  CHECK(os::check_put_here(path + "/x"));  // who has the folder has put it there
}

TEST_CASE("fuse mount: root's own -> counts; unmounted while it is open -> unknown") {
  const Folder folder;
  if (!can_mount(folder)) return;
  const std::string path = folder.write("file", "ours");
  os::Fd file;
  {
    const Shown shown(path, 0);
    REQUIRE(shown.is_mounted());
    CHECK(os::check_own(path));
    CHECK(os::other_writer(path).empty());
  }
  const auto open_shown = [&] { file.reset(::open(path.c_str(), O_PATH | O_CLOEXEC)); };
  {
    const Shown shown(path, kStranger);  // the device's number may be that of the one before
    open_shown();
    CHECK(os::forger_of(file.get()) == "uid 54321");
    ::umount2(path.c_str(), MNT_DETACH);
    CHECK(os::forger_of(file.get()) == "an unknown user");
    file.reset();
  }
  open_shown();
  CHECK(os::forger_of(file.get()).empty());
}
