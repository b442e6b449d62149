// The exit codes of stoker-train, by their short name in this folder.
#pragma once

#include "wire/exit_code.hpp"

namespace stoker::train {

using wire::ExitCode;

}  // namespace stoker::train
