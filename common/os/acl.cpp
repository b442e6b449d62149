// The kernel's form of an ACL: a header, then entries, all little-endian.
#include "common/os/acl.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <endian.h>
#include <linux/limits.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

namespace stoker::os {
namespace {

constexpr const char* kAccess = "system.posix_acl_access";
constexpr const char* kDefault = "system.posix_acl_default";

// The folder, or its file system, has no ACL of this kind.
bool has_none(int error) {
  return error == ENODATA || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

}  // namespace

Status remove_acls(int folder, const std::string& path) {
  for (const char* name : {kAccess, kDefault}) {
    const bool there = ::fgetxattr(folder, name, nullptr, 0) >= 0;
    if (!there && !has_none(errno)) return fail(errno_error(errno, "cannot read its ACL", path));
    if (there && ::fremovexattr(folder, name) != 0)
      return fail(errno_error(errno, "cannot remove its ACL", path, "setfacl -b -k " + path));
  }
  return ok();
}

bool has_acl(int fd) {
  return ::fgetxattr(fd, kAccess, nullptr, 0) >= 0;
}

Result<bool> take_write_from_default_acl(int folder, const std::string& path) {
  std::string acl(XATTR_SIZE_MAX, '\0');
  const ssize_t got = ::fgetxattr(folder, kDefault, acl.data(), acl.size());
  if (got < 0 && has_none(errno)) return false;
  if (got < 0) return fail(errno_error(errno, "cannot read its default ACL", path));
  const auto size = static_cast<std::size_t>(got);
  bool changed = false;
  posix_acl_xattr_entry entry{};
  for (std::size_t at = sizeof(posix_acl_xattr_header); at + sizeof entry <= size;
       at += sizeof entry) {
    std::memcpy(&entry, acl.data() + at, sizeof entry);
    if (le16toh(entry.e_tag) == ACL_USER_OBJ || (le16toh(entry.e_perm) & ACL_WRITE) == 0) continue;
    entry.e_perm = htole16(static_cast<std::uint16_t>(le16toh(entry.e_perm) & ~ACL_WRITE));
    std::memcpy(acl.data() + at, &entry, sizeof entry);
    changed = true;
  }
  if (changed && ::fsetxattr(folder, kDefault, acl.data(), size, XATTR_REPLACE) != 0)
    return fail(errno_error(errno, "cannot take write permission from its default ACL", path,
                            "setfacl -k " + path));
  return changed;
}

}  // namespace stoker::os
