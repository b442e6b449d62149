// Names that a support bundle's archive can hold.
#include "cli/support/archive.hpp"

#include <doctest/doctest.h>

#include "common/os/process.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::cli::support;

TEST_CASE("can_hold: a long name below folders fits, a single long name does not") {
  CHECK(can_hold("RUN.yaml"));
  CHECK(can_hold(std::string(100, 'n')));
  CHECK_FALSE(can_hold(std::string(101, 'n')));
  CHECK(can_hold("generations/gen-000123/" + std::string(100, 'n')));
  CHECK_FALSE(can_hold("generations/gen-000123/" + std::string(101, 'n')));
}

TEST_CASE("write_archive: every name that can_hold() accepts -> tar reads it back whole") {
  const testing::Folder folder;
  const std::string path = folder / "bundle.tar.zst";
  const std::string run(kLongestFolder, 'r');
  const std::string name = "generations/gen-000123/" + std::string(100, 'n');
  REQUIRE(write_archive(path, run, {{name, "text"}}, WallTime{}));
  os::SpawnOptions options;
  options.argv = {"/bin/tar", "--zstd", "-tf", path};
  const auto answer = os::run_command(options, 20s, 1 << 16);
  REQUIRE(answer);
  CHECK(answer->out == run + "/" + name + "\n");
}
