// Access control lists (acl(5)), which a folder's own mode does not show: by its default ACL, which
// the kernel takes in the place of the umask, others can write and read what is made there.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::os {

// From now on the mode of an open folder alone decides who may what, and the umask what is made in
// it. `path` is for the message.
Status remove_acls(int folder, const std::string& path);

// Whether what is open has an ACL besides its mode.
bool has_acl(int fd);

// Of what is made in the folder, only its owner may write. True: others could.
Result<bool> take_write_from_default_acl(int folder, const std::string& path);

}  // namespace stoker::os
