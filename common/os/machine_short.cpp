// An Error carries errno as words, so the words are compared.
#include "common/os/machine_short.hpp"

#include <cerrno>
#include <cstring>

namespace stoker::os {

bool is_machine_short(const Error& error) {
  for (const int number : {EAGAIN, ENOMEM})
    if (error.what.find(::strerrordesc_np(number)) != std::string::npos) return true;
  return false;
}

}  // namespace stoker::os
