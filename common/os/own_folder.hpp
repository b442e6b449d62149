// A folder of our own that is open: what is made, renamed and removed in it stays in it, also
// when another user gives its path to another folder meanwhile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace stoker::os {

class OwnFolder {
 public:
  // Refused: a link, a folder of another user, one that others may write.
  static Result<OwnFolder> open(const std::string& path);

  // A new file to write; a file of this name that an earlier writer left is removed first. With an
  // Error errno is that of the system call.
  Result<Fd> create(const std::string& name, unsigned mode = 0644) const;
  // The file and its name are on the disk; readers see the old or the new content, never less.
  Status put(const std::string& name, std::string_view content) const;
  // With an Error errno is that of the system call.
  Status rename(const std::string& from, const std::string& to) const;
  Status sync() const;  // names of files
  // What is in it, sorted; no "." and "..".
  Result<std::vector<std::string>> names() const;
  Status remove(const std::string& name) const;  // a file
  // Whether the path still leads to this folder: another user may have exchanged it.
  [[nodiscard]] bool is_at_path() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  OwnFolder(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Fd fd_;
  std::string path_;
};

// Removes the `expected` files of <base>/<name>, a folder of ours, `first` first, then the folder.
// An entry that is not expected stays, with the folder, and is named in the error: in a folder that
// others may write, someone can give this name to another folder. No link is followed. Gone
// already: success.
Status remove_own_files(const std::string& base, const std::string& name,
                        bool (*expected)(std::string_view), const std::string& first = "");

// Whether it is our user's or root's, no matter who may write it. Of a link: the link and what it
// names.
Status check_owner(int fd, const std::string& path);
Status check_owner(const std::string& path);

// What open(2) with O_NOFOLLOW said; of a link: refused.
Error open_error(int error, const std::string& path);

// Writes all of it to a file that is open; `path` is for the message.
Status write_open_file(int fd, const std::string& path, std::string_view content);

}  // namespace stoker::os
