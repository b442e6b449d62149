// Bytes from the kernel: for names, marks and keys that others cannot foresee.
#pragma once

#include <cstddef>
#include <string>

namespace stoker::os {

std::string random_bytes(std::size_t count);
std::string random_hex(std::size_t bytes);  // two lower-case digits a byte

}  // namespace stoker::os
