#include "common/os/private_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>

namespace stoker::os {

Result<PrivateFolder> make_private_folder(const std::string& prefix) {
  PrivateFolder folder{prefix + "XXXXXX", {}};
  if (::mkdtemp(folder.path.data()) == nullptr)
    return fail(errno_error(errno, "cannot create a folder", prefix));
  folder.fd = Fd(::open(folder.path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!folder.fd || ::fstat(folder.fd.get(), &info) != 0)
    return fail(errno_error(errno, "cannot open", folder.path));
  if (info.st_uid != ::geteuid() || (info.st_mode & 07777) != 0700)
    return fail("this is not the folder that was just made", folder.path);
  return folder;
}

}  // namespace stoker::os
