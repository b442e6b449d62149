// Whether a failure means that a disk is full or a quota spent: then the same call succeeds once
// somebody made room, and nothing else is wrong.
#pragma once

#include "common/result.hpp"

namespace stoker::os {

// Recognised by errno's words (ENOSPC, EDQUOT), which errno_error() puts at the end of `what`.
bool is_no_room(const Error& error);

}  // namespace stoker::os
