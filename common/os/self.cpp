#include "common/os/self.hpp"

#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace stoker::os {

std::string own_program(const std::string& program) {
  if (const char* bundle = std::getenv("STOKER_BUNDLE"); bundle != nullptr && *bundle != '\0')
    return std::string(bundle) + "/bin/" + program;
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  if (n <= 0) return program;
  const std::string path(self, static_cast<std::size_t>(n));
  return path.substr(0, path.rfind('/') + 1) + program;
}

}  // namespace stoker::os
