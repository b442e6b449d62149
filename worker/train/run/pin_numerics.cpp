#include "worker/train/run/pin_numerics.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <unistd.h>
#include <vector>

#include "common/os/files.hpp"
#include "recipe/numerics.hpp"

namespace stoker::train {
namespace {

bool is_pinned() {
  const auto& wanted = recipe::portable_environment();
  return std::all_of(wanted.begin(), wanted.end(), [](const auto& variable) {
    const char* value = std::getenv(variable.first.c_str());
    return value != nullptr && variable.second == value;
  });
}

Status start_anew() {
  constexpr std::size_t kMostArguments = 1u << 20;
  STOKER_TRY(line, os::read_file("/proc/self/cmdline", kMostArguments));
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < line.size(); at = line.find('\0', at) + 1)
    arguments.push_back(line.data() + at);
  arguments.push_back(nullptr);
  for (const auto& [name, value] : recipe::portable_environment())
    ::setenv(name.c_str(), value.c_str(), 1);
  ::execv("/proc/self/exe", arguments.data());
  return fail(errno_error(errno, "cannot start again", "numerics: portable"));
}

}  // namespace

Status pin_numerics(recipe::Numerics wanted) {
  if (wanted == recipe::Numerics::Native) return ok();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return fail("this CPU has no AVX2 or no FMA", "numerics: portable",
                "exclude this node, or take numerics: native");
  return is_pinned() ? ok() : start_anew();
}

}  // namespace stoker::train
