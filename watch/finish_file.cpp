// The file's edge, remembered in a cursor of its own.
#include "watch/finish_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/os/own_folder.hpp"
#include "common/os/way.hpp"

namespace stoker::watch {

Result<bool> is_finish_file(const std::string& path) {
  STOKER_TRY(opened, os::open_on_way(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!opened) return false;
  if (::fstat(opened->get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode)) return false;
  STOKER_TRY_STATUS(os::check_owner(opened->get(), path));
  if (info.st_nlink != 1)
    return fail("refused: it has several names, so another user may have given it this one", path,
                "let the training write a file of its own");
  return true;
}

FinishFile::FinishFile(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors)
    : run_(policy.run) {
  const std::string& file = policy.train.finished.file;
  if (file.empty()) return;
  path_ = file.starts_with('/') ? file : policy.directory + "/" + file;
  key_ = "finished:" + run_.text + ":" + path_;
  for (const auto& cursor : cursors)
    if (cursor.path == key_) there_ = cursor.offset == 1;
}

void FinishFile::poll(std::vector<core::Input>& out) {
  if (path_.empty()) return;
  const auto found = is_finish_file(path_);
  if (!found && found.error().message() != refused_) {
    refused_ = found.error().message();
    out.push_back({run_, core::LogFollowed{path_, "no end of the training: " + refused_}, {}});
  }
  if (!found || *found == there_) return;  // unknown: it is as it was
  there_ = !there_;
  core::Cursor cursor;
  cursor.path = key_;
  cursor.offset = there_ ? 1 : 0;
  out.push_back({run_, core::FinishFileSeen{path_, there_}, {std::move(cursor)}});
}

}  // namespace stoker::watch
