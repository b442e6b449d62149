// No room: an Error carries errno as words, so the words are compared.
#include "common/os/room.hpp"

#include <cerrno>
#include <cstring>

namespace stoker::os {

bool is_no_room(const Error& error) {
  for (const int number : {ENOSPC, EDQUOT})
    if (error.what.find(::strerrordesc_np(number)) != std::string::npos) return true;
  return false;
}

}  // namespace stoker::os
