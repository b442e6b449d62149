// Numerics: what pins the bits of a CPU training on mixed nodes. The tensor libraries choose their
// code by the CPU that they find, and another choice adds in another order.
#pragma once

#include <map>
#include <string>

namespace stoker::recipe {

// Variables that make the libraries below LibTorch take their AVX2 code on every x86-64 CPU that
// has AVX2 and FMA. They are read when a library is loaded, so they must be there before main.
const std::map<std::string, std::string>& portable_environment();

}  // namespace stoker::recipe
