// The files below a LineTail: opening what a path denotes now, reading at an offset, and finding
// what a log rotation left beside it. Everything is opened again and never trusted to be regular.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace stoker::watch {

struct OpenedFile {
  os::Fd fd;
  std::uint64_t inode = 0, size = 0;
  std::int64_t mtime = 0;  // nanoseconds
  unsigned owner = 0;      // a uid
};

// Ours, root's, or of a user of the system, who writes the logs of a node: a uid below 1000, one of
// systemd's dynamic ones (61184 to 65519), or 65534, as which NFS shows root.
bool is_of_system(const OpenedFile& file);
// `file` may be `other`, rotated: anybody may make files beside a log in a shared folder.
bool is_of_same(const OpenedFile& file, const OpenedFile& other);

// Empty: there is no such file. Errors: no permission, no regular file, a stale handle.
Result<std::optional<OpenedFile>> open_regular(const std::string& path);

// Up to `size` bytes from `offset`; fewer at the end of the file. Errors: EIO, ESTALE.
Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t size);

// True when the bytes before `offset` end with `bytes`.
bool ends_with_at(int fd, std::uint64_t offset, std::string_view bytes);

// What the first bytes of a file say about its identity, as core::Cursor::head_hash wants it.
inline constexpr std::size_t kHeadBytes = 1024;
std::uint64_t head_hash(std::string_view first_bytes, std::uint64_t offset);

// The newest file in the folder of `path` whose name goes on from its name ("main.log.1",
// "main.log-20260501") and that `accept` takes. Compressed ones are no candidates.
std::optional<OpenedFile> find_sibling(const std::string& path,
                                       const std::function<bool(const OpenedFile&)>& accept);

// What a log rotation ("main.log.1", "main.log-20260501") put beside `path` since `first` was
// written for the last time, oldest first, neither `first` nor `now` among them; at most `most`.
std::vector<OpenedFile> rotated_since(const std::string& path, const OpenedFile& first,
                                      const OpenedFile& now, std::size_t most);

}  // namespace stoker::watch
