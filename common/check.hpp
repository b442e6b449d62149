// STOKER_CHECK(condition, "text"): a broken invariant is a bug. It prints where and what, and
// aborts, in release too; the supervisor restarts the process and the journal restores the state.
#pragma once

#include <string_view>

namespace stoker {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view text);
}  // namespace stoker

#define STOKER_CHECK(condition, ...)                                                         \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::stoker::check_failed(__FILE__, __LINE__, #condition, std::string_view(__VA_ARGS__)); \
  } while (false)
