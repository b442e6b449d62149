// Whether a failure means that the machine has no process, thread or memory left to give: other
// users may have used them up. Then the same call succeeds once there are some again, and nothing
// else is wrong.
#pragma once

#include "common/result.hpp"

namespace stoker::os {

// Recognised by errno's words (EAGAIN, ENOMEM), which errno_error() puts at the end of `what`.
bool is_machine_short(const Error& error);

}  // namespace stoker::os
