// The detector with the product's own knowledge; made once, for it takes a while.
#pragma once

#include <doctest/doctest.h>

#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/input/log_file.hpp"

namespace stoker::diagnose {

inline const Detector& detector() {
  static const Detector made = [] {
    configs::Diagnostics errors;
    auto result = Detector::make(load_knowledge({}, errors));
    REQUIRE(result.has_value());
    return std::move(result).value();
  }();
  return made;
}

}  // namespace stoker::diagnose
