// An Error carries errno as words: errno_error() puts them at the end of `what`.
#pragma once

#include <initializer_list>

#include "common/result.hpp"

namespace stoker::os {

bool has_errno(const Error& error, std::initializer_list<int> numbers);

}  // namespace stoker::os
