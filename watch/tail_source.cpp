// open, pread and the neighbours of a rotated log.
#include "watch/tail_source.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "common/os/fuse_mount.hpp"
#include "common/os/way.hpp"

namespace stoker::watch {

namespace {
constexpr std::size_t kMostSiblings = 256;

bool is_compressed(std::string_view name) {
  for (const std::string_view end : {".gz", ".xz", ".zst", ".bz2"})
    if (name.ends_with(end)) return true;
  return false;
}

// Each regular file in the folder of `path` whose name goes on from its name, and what follows
// there.
void each_sibling(const std::string& path,
                  const std::function<void(std::string_view, OpenedFile)>& visit) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const auto names = os::list_directory(folder);
  if (!names) return;
  std::size_t looked_at = 0;
  for (const std::string_view other : *names) {
    if (other.size() <= name.size() || !other.starts_with(name) || is_compressed(other)) continue;
    if (++looked_at > kMostSiblings) break;
    auto file = open_regular(fmt::format("{}/{}", folder, other));
    if (file && *file) visit(other.substr(name.size()), std::move(**file));
  }
}

// ".1", "-20260501", "-20260501-1764000000"
bool is_rotation(std::string_view end) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return end.size() > 1 && (end[0] == '.' || end[0] == '-') && digit(end.back()) &&
         std::all_of(end.begin() + 1, end.end(), [&](char c) { return digit(c) || c == '-'; });
}

}  // namespace

Result<std::optional<OpenedFile>> open_regular(const std::string& path) {
  STOKER_TRY(opened, os::open_on_way(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!opened) return std::optional<OpenedFile>{};
  OpenedFile file;
  file.fd = std::move(*opened);
  struct stat about {};
  if (::fstat(file.fd.get(), &about) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(about.st_mode)) return fail("is no regular file", path);
  STOKER_TRY_STATUS(os::check_mount(file.fd.get(), path));  // each read and the close would wait
  file.inode = about.st_ino;
  file.size = static_cast<std::uint64_t>(about.st_size);
  file.mtime = os::mtime_ns(about);
  file.owner = about.st_uid;
  return std::optional<OpenedFile>(std::move(file));
}

Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got =
        ::pread(fd, bytes.data() + have, size - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(errno_error(errno, "cannot read", ""));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

bool ends_with_at(int fd, std::uint64_t offset, std::string_view bytes) {
  if (bytes.size() > offset) return false;
  const auto there = read_at(fd, offset - bytes.size(), bytes.size());
  return there && *there == bytes;
}

std::uint64_t head_hash(std::string_view first_bytes, std::uint64_t offset) {
  return xxh3_64(first_bytes.substr(0, std::min<std::uint64_t>(offset, kHeadBytes)));
}

bool is_of_system(const OpenedFile& file) {
  constexpr unsigned kSystemUsers = 1000;                          // of the distribution
  constexpr unsigned kFirstDynamic = 61184, kLastDynamic = 65519;  // systemd's DynamicUser=
  constexpr unsigned kNobody = 65534;                              // root, by way of NFS
  return file.owner < kSystemUsers || file.owner == ::geteuid() || file.owner == kNobody ||
         (file.owner >= kFirstDynamic && file.owner <= kLastDynamic);
}

bool is_of_same(const OpenedFile& file, const OpenedFile& other) {
  return file.owner == other.owner || file.owner == 0 || file.owner == ::geteuid();
}

std::optional<OpenedFile> find_sibling(const std::string& path,
                                       const std::function<bool(const OpenedFile&)>& accept) {
  std::optional<OpenedFile> best;
  each_sibling(path, [&](std::string_view, OpenedFile file) {
    if ((!best || best->mtime < file.mtime) && accept(file)) best = std::move(file);
  });
  return best;
}

std::vector<OpenedFile> rotated_since(const std::string& path, const OpenedFile& first,
                                      const OpenedFile& now, std::size_t most) {
  std::vector<OpenedFile> found;
  each_sibling(path, [&](std::string_view end, OpenedFile file) {
    const bool another =
        file.inode != first.inode && file.inode != now.inode && is_of_same(file, first);
    if (is_rotation(end) && another && file.mtime >= first.mtime && found.size() < most)
      found.push_back(std::move(file));
  });
  std::sort(found.begin(), found.end(),
            [](const OpenedFile& a, const OpenedFile& b) { return a.mtime < b.mtime; });
  return found;
}

}  // namespace stoker::watch
