// Pins the numerics of this process as the configuration asks.
#pragma once

#include "common/result.hpp"
#include "recipe/train_config.hpp"

namespace stoker::train {

// Portable: when the environment does not pin the tensor libraries yet (stoker's agent sets it),
// the program starts itself again with recipe::portable_environment(), in the same process and with
// the same arguments, and does not return. Error: the CPU lacks what portable needs, or exec
// failed.
Status pin_numerics(recipe::Numerics wanted);

}  // namespace stoker::train
