// stoker: asks the daemon, reads what it published, drops switch files.
#include "cli/application.hpp"
#include "common/os/process.hpp"

int main(int argc, char** argv) {
  stoker::cli::Console console = stoker::cli::Console::standard();
  stoker::cli::Context context{console, {}, stoker::os::current_environment()};
  return stoker::cli::run({argv + 1, argv + argc}, context);
}
