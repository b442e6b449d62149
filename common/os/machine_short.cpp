#include "common/os/machine_short.hpp"

#include <cerrno>

#include "common/os/errno_words.hpp"

namespace stoker::os {

bool is_machine_short(const Error& error) {
  return has_errno(error, {EAGAIN, ENOMEM});
}

}  // namespace stoker::os
