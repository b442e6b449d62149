// open, pread and the neighbours of a rotated log.
#include "watch/tail_source.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::watch {

namespace {
constexpr std::size_t kMostSiblings = 256;

bool is_compressed(std::string_view name) {
  for (const std::string_view end : {".gz", ".xz", ".zst", ".bz2"})
    if (name.ends_with(end)) return true;
  return false;
}
}  // namespace

Result<std::optional<OpenedFile>> open_regular(const std::string& path) {
  OpenedFile file;
  file.fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.fd) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<OpenedFile>{};
    return fail(errno_error(errno, "cannot open", path));
  }
  struct stat about {};
  if (::fstat(file.fd.get(), &about) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(about.st_mode)) return fail("is no regular file", path);
  file.inode = about.st_ino;
  file.size = static_cast<std::uint64_t>(about.st_size);
  file.mtime = about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec;
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

std::optional<OpenedFile> find_sibling(const std::string& path,
                                       const std::function<bool(const OpenedFile&)>& accept) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const auto names = os::list_directory(folder);
  if (!names) return std::nullopt;
  std::optional<OpenedFile> best;
  std::size_t looked_at = 0;
  for (const auto& other : *names) {
    if (other.size() <= name.size() || !other.starts_with(name) || is_compressed(other)) continue;
    if (++looked_at > kMostSiblings) break;
    auto file = open_regular(folder + "/" + other);
    if (!file || !*file || (best && best->mtime >= (*file)->mtime) || !accept(**file)) continue;
    best = std::move(**file);
  }
  return best;
}

}  // namespace stoker::watch
