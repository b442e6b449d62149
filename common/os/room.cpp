#include "common/os/room.hpp"

#include <cerrno>

#include "common/os/errno_words.hpp"

namespace stoker::os {

bool is_no_room(const Error& error) {
  return has_errno(error, {ENOSPC, EDQUOT});
}

}  // namespace stoker::os
