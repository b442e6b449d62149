// Sizes as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

std::string size_text(std::uint64_t bytes);  // "1.5 GiB"

}  // namespace stoker
