// What can be wrong with a signature that is well formed: it does not do what its own examples say,
// speaks on healthy lines, never speaks, or is too large to look for in every line.
#pragma once

#include <string>
#include <vector>

#include "diagnose/match/signature.hpp"

namespace stoker::diagnose {

struct SignatureFault {
  const char* key;  // of the entry: pattern, example, counter_example, weight
  std::string what;
};

// `known`: the signatures that stand before it.
std::vector<SignatureFault> lint_signature(const Signature& signature,
                                           const std::vector<Signature>& known);

}  // namespace stoker::diagnose
