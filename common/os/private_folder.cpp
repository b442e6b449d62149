#include "common/os/private_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/way.hpp"

namespace stoker::os {

Result<PrivateFolder> make_private_folder(const std::string& prefix) {
  PrivateFolder folder{prefix + "XXXXXX", {}};
  if (::mkdtemp(folder.path.data()) == nullptr)
    return fail(errno_error(errno, "cannot create a folder", prefix));
  folder.fd = Fd(::open(folder.path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!folder.fd || ::fstat(folder.fd.get(), &info) != 0)
    return fail(errno_error(errno, "cannot open", folder.path));
  if (info.st_uid != ::geteuid() ||
      (info.st_mode & 0777) != 0700)  // setgid comes from the folder around
    return fail("this is not the folder that was just made", folder.path);
  return folder;
}

Result<PrivateFolder> make_lasting_folder(const std::string& prefix) {
  STOKER_TRY(folder, make_private_folder(prefix));
  const std::string open = open_folder_before(folder.path + "/file", ::geteuid());
  if (open.empty()) return std::move(folder);
  ::rmdir(folder.path.c_str());
  return fail(
      "refused: other users can write there, and could put their own files in the place of "
      "what is executed",
      open, "name a folder that only you can write");
}

}  // namespace stoker::os
