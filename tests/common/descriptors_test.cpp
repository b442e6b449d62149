#include "common/os/descriptors.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <sys/resource.h>

using namespace stoker;

TEST_CASE("descriptors: the soft limit becomes the hard one, and no more than enough") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = 256;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK(os::descriptor_limit() == 256);
  os::raise_descriptor_limit();
  CHECK(os::descriptor_limit() == std::min<rlim_t>(before.rlim_max, os::kEnoughDescriptors));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}
