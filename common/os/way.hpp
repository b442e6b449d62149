// The way that leads to a path: who else could lead it elsewhere, or put something at its end.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace stoker::os {

// Whether each symbolic link on the way to `path`, `path` itself included, belongs to us, to root
// or to a user of the system (a uid below 1000; in a user namespace also the overflow uid, in a
// closed folder of its own). Another user's link, as in a sticky folder, could lead elsewhere at
// any time. What does not exist leads nowhere: fine. Errors: is_refusal(), or a part of the way
// cannot be read.
Status check_way(const std::string& path);

// Opens what lies at `path`, as open(2) with these flags does, on a way without another user's
// links; no link can be put on the way meanwhile. Empty: nothing is there. Errors: as check_way()
// has them; it cannot be opened.
Result<std::optional<Fd>> open_on_way(const std::string& path, int flags);

// What lies at `path` (the link itself, if it is one) is there by those who are trusted with the
// folder around it: us, root, or the folder's owner, who could exchange everything in it. Errors:
// is_refusal(), another user's; it cannot be read.
Status check_put_here(const std::string& path);

// The folder on the way to `path` (its links resolved) where a user other than root, `uid` and we
// could put something in its place: another user's folder, or one that others may write, unless it
// is sticky and what it has on the way is root's or ours. "": no such folder. `path` itself need
// not exist.
std::string open_folder_before(const std::string& path, uid_t uid);

}  // namespace stoker::os
