#include "common/os/errno_words.hpp"

#include <algorithm>
#include <cstring>

namespace stoker::os {

bool has_errno(const Error& error, std::initializer_list<int> numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [&](int number) {
    return error.what.find(::strerrordesc_np(number)) != std::string::npos;
  });
}

}  // namespace stoker::os
