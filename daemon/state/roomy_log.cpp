// The room is allocated beyond the end of the file, where nothing else can take it.
#include "daemon/state/roomy_log.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"

namespace stoker::daemon {
namespace {

constexpr off_t kRoom = 64 * 1024;

}  // namespace

Status RoomyLog::keep_room() const {
  const os::Fd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0)
    return fail(errno_error(errno, "cannot open for append", path_));
  if (::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, info.st_size, kRoom) != 0)
    return fail(errno_error(errno, "cannot keep room", path_));
  return ok();
}

Status RoomyLog::append(const std::string& line) const {
  return os::append_file(path_, line, os::Durability::Cached);
}

}  // namespace stoker::daemon
