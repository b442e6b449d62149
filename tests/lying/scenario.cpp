// The scenario as a program of its own, so that a file system that lies can be put below it.
#include "tests/lying/scenario.hpp"

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  const bool whole = stoker::daemon::test::live_on_lying_disk(argv[1], [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  });
  return whole ? 0 : 1;
}
