// The file's edge, remembered in a cursor of its own.
#include "watch/finish_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/os/fd.hpp"

namespace stoker::watch {
namespace {

bool is_there(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  return fd && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

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
  if (path_.empty() || is_there(path_) == there_) return;
  there_ = !there_;
  core::Cursor cursor;
  cursor.path = key_;
  cursor.offset = there_ ? 1 : 0;
  out.push_back({run_, core::FinishFileSeen{path_, there_}, {std::move(cursor)}});
}

}  // namespace stoker::watch
