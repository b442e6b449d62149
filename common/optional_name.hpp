// OptionalName: a value of an enum that another program may have left out, as "". A name that this
// version does not know reads as left out too, so that a later version may have more of them.
#pragma once

#include <optional>
#include <string>

#include "common/json.hpp"

namespace stoker {

template <NamedEnum E>
class OptionalName {
 public:
  OptionalName() = default;
  OptionalName(E value) : value_(value) {}  // NOLINT: implicit
  explicit OptionalName(std::string_view name) : value_(enum_from<E>(name)) {}

  [[nodiscard]] const std::optional<E>& get() const { return value_; }
  [[nodiscard]] std::string text() const {
    return value_ ? std::string(name_of(*value_)) : std::string();
  }
  bool operator==(const OptionalName&) const = default;

 private:
  std::optional<E> value_;
};

}  // namespace stoker

template <stoker::NamedEnum E>
struct nlohmann::adl_serializer<stoker::OptionalName<E>> {
  static void to_json(json& j, const stoker::OptionalName<E>& name) { j = name.text(); }
  static void from_json(const json& j, stoker::OptionalName<E>& name) {
    name = stoker::OptionalName<E>(std::string_view(j.get_ref<const std::string&>()));
  }
};
