// The kernel sets st_dev of a file on FUSE itself. fstatfs(2) asks the program, or a file server,
// so that it is called once a device, until mounts change.
#include "common/os/fuse_mount.hpp"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <fmt/format.h>
#include <mutex>
#include <poll.h>
#include <set>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/os/fd.hpp"
#include "common/os/kernel_table.hpp"
#include "common/os/own_files.hpp"

namespace stoker::os {
namespace {

constexpr auto kFuseMagic = 0x65735546;
constexpr const char* kMounts = "/proc/self/mountinfo";
constexpr std::size_t kMostBytes = 64u << 20;
constexpr std::size_t kMostKnown = 1000;
constexpr std::size_t kPlace = 4, kFieldsBeforeOptional = 6;

template <class T>
std::optional<T> number(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A field may be empty, as a mount's source can be.
std::vector<std::string_view> split(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(between);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_octal(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
}

// "my\040disk": what would end the field is written in octal.
std::string unescaped(std::string_view text) {
  std::string place;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 3);
    if (text[i] != '\\' || digits.size() < 3 || !is_octal(digits)) {
      place += text[i];
      continue;
    }
    place += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + digits[2] - '0');
    i += 3;
  }
  return place;
}

// virtiofs is not among them: root alone mounts it, and no program of this host shows its files.
bool is_fuse(std::string_view type) {
  const auto name = type.substr(0, type.find('.'));
  return name == "fuse" || name == "fuseblk";
}

std::optional<std::uint64_t> mount_id_of(int fd) {
  constexpr std::string_view kKey = "mnt_id:\t";
  std::optional<std::uint64_t> id;
  (void)read_table(fmt::format("/proc/self/fdinfo/{}", fd).c_str(), [&](std::string_view line) {
    if (line.starts_with(kKey)) id = number<std::uint64_t>(line.substr(kKey.size()));
    return !id;
  });
  return id;
}

// The open file keeps the number of its mount from being given to another one.
std::optional<Mount> find_mount(int fd) {
  const auto id = mount_id_of(fd);
  if (!id) return std::nullopt;
  std::optional<Mount> found;
  for (int tries = 0; tries < 3 && !found; ++tries) {  // a line is missed if a mount before it ends
    std::size_t bytes = 0;
    (void)read_table(kMounts, [&](std::string_view line) {
      bytes += line.size();
      const auto mount = parse_mount(line);
      if (mount && mount->id == *id) found = mount;
      return !found && bytes < kMostBytes;
    });
  }
  return found;
}

// Devices that were judged as good. The kernel gives the number of one that is gone to another, but
// not without a change of the mounts. A child of fork(2) has a list of its own.
class GoodDevices {
 public:
  bool has(dev_t device) {
    const std::lock_guard lock(mutex_);
    renew();
    return known_.contains({device, ::geteuid()});
  }
  void add(dev_t device) {
    const std::lock_guard lock(mutex_);
    if (changes_ && process_ == ::getpid()) known_.insert({device, ::geteuid()});
  }

 private:
  void renew() {
    pollfd change{changes_.get(), POLLPRI, 0};
    if (changes_ && process_ == ::getpid() && known_.size() < kMostKnown &&
        ::poll(&change, 1, 0) == 0)
      return;
    known_.clear();
    if (changes_ && process_ == ::getpid()) return;
    process_ = ::getpid();
    changes_.reset(::open(kMounts, O_RDONLY | O_CLOEXEC));
  }

  std::mutex mutex_;
  Fd changes_;
  pid_t process_ = 0;
  std::set<std::pair<dev_t, uid_t>> known_;
};

GoodDevices& good_devices() {
  static GoodDevices devices;
  return devices;
}

}  // namespace

std::optional<Mount> parse_mount(std::string_view line) {
  const auto fields = split(line, ' ');
  if (fields.size() <= kFieldsBeforeOptional) return std::nullopt;
  const auto id = number<std::uint64_t>(fields[0]);
  const auto dash = std::find(fields.begin() + kFieldsBeforeOptional, fields.end(), "-");
  if (!id || fields.end() - dash != 4) return std::nullopt;
  Mount mount{*id, unescaped(fields[kPlace]), is_fuse(dash[1]), std::nullopt};
  constexpr std::string_view kUser = "user_id=";
  int said = 0;
  for (const std::string_view option : split(dash[3], ','))
    if (option.starts_with(kUser) && ++said == 1)
      mount.user = number<unsigned>(option.substr(kUser.size()));
  if (said > 1) mount.user.reset();
  return mount;
}

std::string forger_of(int fd) {
  constexpr const char* kUnknown = "an unknown user";
  struct stat info {};
  if (::fstat(fd, &info) != 0) return kUnknown;
  if (good_devices().has(info.st_dev)) return "";
  struct statfs system {};
  // The program may answer with an error.
  if (::fstatfs(fd, &system) != 0 || system.f_type == kFuseMagic) {
    const auto mount = find_mount(fd);
    if (!mount || (mount->is_fuse && !mount->user)) return kUnknown;
    if (mount->is_fuse && *mount->user != 0 && *mount->user != ::geteuid())
      return user_name_of(*mount->user);
  }
  good_devices().add(info.st_dev);
  return "";
}

Status check_mount(int fd, const std::string& path) {
  const std::string who = forger_of(fd);
  if (who.empty()) return ok();
  return fail(
      fmt::format("refused: it is on a FUSE mount of {}, who can forge its owner and mode", who),
      path,
      fmt::format("unmount it, or name another file; FUSE mounts of root and {} count",
                  user_name_of(::geteuid())));
}

}  // namespace stoker::os
