// Who may read and write a file: the only place that sets modes and the umask (tests/lint), so that
// one look shows what stoker opens to others.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "common/result.hpp"

namespace stoker::os {

// Exactly these permission bits, independent of the umask. Error also: `path` is a symbolic link;
// who may put one there would choose the file that is opened. `what` begins the error ("cannot
// close it to others").
Status set_mode(const std::string& path, mode_t mode, const std::string& what);
Status set_mode(int fd, mode_t mode, const std::string& what, const std::string& path);
// Of a folder, which a person may have put behind a link. Its ACLs go: the mode alone decides.
Status set_folder_mode(const std::string& path, mode_t mode, const std::string& what);

// The same, and a group that has it. Of a link that lies there nothing changes: a user who may put
// one there would choose the folder that is opened to the group, and who else made one decides
// alone.
Status share_folder(const std::string& path, std::optional<gid_t> group, mode_t mode,
                    const std::string& what);

// While it lives, this process makes files with this umask: for bind(2), which takes no mode. The
// umask belongs to all threads of the process: hold it for that call alone.
class UmaskFor {
 public:
  explicit UmaskFor(mode_t umask);
  ~UmaskFor();
  UmaskFor(const UmaskFor&) = delete;
  UmaskFor& operator=(const UmaskFor&) = delete;

 private:
  mode_t before_;
};

// From now on others can write nothing that this process and its children make, however open the
// umask is that they were given.
void take_write_from_others();

// In a child before its exec: the umask that the user gave us, and that make_private() put aside.
void restore_umask();

}  // namespace stoker::os
