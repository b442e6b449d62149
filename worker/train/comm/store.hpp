// Store: what ranks say to each other beside their Comm, in the place where they met.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/result.hpp"

namespace stoker::train {

struct Store {
  std::function<Status(const std::string& key, const std::string& value)> put;
  // Nothing: it is not there yet.
  std::function<Result<std::optional<std::string>>(const std::string& key)> get;
  // Who does not answer a roll call, bounded in time: "3, 5".
  std::function<std::string()> missing;
};

}  // namespace stoker::train
