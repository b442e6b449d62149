// stoker: asks the daemon, reads what it published, drops switch files.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "cli/application.hpp"
#include "common/os/process.hpp"

int main(int argc, char** argv) {
  std::signal(SIGPIPE,
              SIG_DFL);  // `| head -1` ends us, also --follow, no matter what our parent ignores
  stoker::cli::Console console = stoker::cli::Console::standard();
  stoker::cli::Context context{console, {}, stoker::os::current_environment()};
  const int code = stoker::cli::run({argv + 1, argv + argc}, context);
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const int error = errno != 0 ? errno : ENOSPC;
  console.say(std::string("standard output cannot be written: ") + std::strerror(error));
  return code != 0 ? code : 1;
}
