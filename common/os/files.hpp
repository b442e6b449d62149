// Files as processes exchange them: read whole with a limit, replace atomically, append one line
// with one write(2), claim by link(2). Every function names the path in its error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "common/result.hpp"

namespace stoker::os {

enum class Durability { Cached, Synced };  // Synced: fsync of the file and of its folder

// Reads a regular file through open(2) (never stat: network file systems cache attributes). Refuses
// more than `limit` bytes, and anything that is no regular file. With `no_follow` a symbolic link
// is refused too.
Result<std::string> read_file(const std::string& path, std::size_t limit = 64u << 20,
                              bool no_follow = false);

// Writes `path` aside ("<path>.new.<pid>.<counter>"), then renames: readers see the old or the new
// content, never less.
Status replace_file(const std::string& path, std::string_view content, Durability durability,
                    unsigned mode = 0644);

// Appends with one write(2) on an O_APPEND descriptor; creates the file when it is missing.
Status append_file(const std::string& path, std::string_view content, Durability durability,
                   unsigned mode = 0644);

// Creates `path` with `content` exactly once among all processes and hosts: a file aside is
// link(2)ed to it and the winner is who sees st_nlink == 2 (on NFS a return code can lie). True: we
// made it; false: it existed.
Result<bool> claim_file(const std::string& path, std::string_view content, unsigned mode = 0644);

Status make_directories(const std::string& path, unsigned mode = 0755);
Status sync_directory(const std::string& path);
Result<std::vector<std::string>> list_directory(
    const std::string& path);  // names, sorted; no "." and ".."
// Names, sizes and times of change of everything below `path`, folded into one word: equal ones
// mean that nothing was made, written or removed there in between. Links are not followed. "none":
// there is no such folder. Errors: what cannot be read; more than a million entries.
Result<std::string> tree_print(const std::string& path);
// Existing paths that a shell pattern (*, ?, [...]) stands for, sorted; itself where it is one.
std::vector<std::string> matching_paths(const std::string& pattern);
bool exists(const std::string& path);
Result<std::string> absolute_path(
    const std::string& path);  // lexical, against the working directory

// The kind of file system below `path`: "ext4-like" local ones, or "nfs", "lustre", "gpfs",
// "beegfs", "ceph", "smb", "fuse".
struct FileSystem {
  std::string name;
  bool network = false;
};
Result<FileSystem> file_system_of(const std::string& path);

std::string host_name();
std::string boot_id();  // of this boot of this host; "" where /proc is not mounted

// When the content changed last, in ns since 1970; 0 where 64 bits do not hold it (years before
// 1678 and after 2262, which the owner of the file can choose).
std::int64_t mtime_ns(const struct stat& info);

}  // namespace stoker::os
