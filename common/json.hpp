// JSON for everything that is stored or exchanged. One adapter turns the library's exceptions into
// Results. A struct lists its members once with STOKER_FIELDS(Type, a, b, c) inside it: missing
// keys keep their default and unknown keys are ignored (so version N reads N-1 and N+1). Keys are
// sorted: the same value is always the same bytes. Covered here: strong ids,
// Duration/Instant/WallTime (integer ns), std::optional (null), enums with EnumNames, and
// std::variant of structs with `static constexpr const char* kKind` (an object with "kind").
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker {

using Json = nlohmann::json;

struct JsonLimits {
  std::size_t bytes = 16u << 20;
  int depth = 64;
};

// Parses hostile text. `object` names the source in the error.
Result<Json> parse_json(std::string_view text, const std::string& object, JsonLimits limits = {});

// Canonical text: sorted keys, no spaces; invalid UTF-8 is replaced.
std::string dump_json(const Json& value);

// enum class E: give the names in the order of the values, starting at 0.
// The names must stand before the first struct that has such a member.
//   template <> struct EnumNames<E> { static constexpr std::array names{"a", "b"}; };
template <class E>
struct EnumNames;

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires {
  EnumNames<E>::names;
};

template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  return EnumNames<E>::names.at(static_cast<std::size_t>(value));
}
template <NamedEnum E>
std::optional<E> enum_from(std::string_view name) {
  for (std::size_t i = 0; i < EnumNames<E>::names.size(); ++i)
    if (name == EnumNames<E>::names[i]) return static_cast<E>(i);
  return std::nullopt;
}

namespace detail {
[[noreturn]] void throw_json(const std::string& what);  // caught by from_json
template <class T>
void call_to_json(Json& j, const T& t) {
  to_json(j, t);
}
template <class T>
void call_from_json(const Json& j, T& t) {
  from_json(j, t);
}
// A number with a fraction or an exponent, or one of more than 64 bits, is a double in JSON. To
// convert it to an integer that cannot hold it is undefined; here it is refused.
template <std::integral T>
struct WholeNumber {
  static void to_json(Json& j, T value) { ::nlohmann::to_json(j, value); }
  static void from_json(const Json& j, T& value) {
    if (j.is_number_float()) {
      const double number = *j.get_ptr<const Json::number_float_t*>();
      const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
      const double below = std::is_signed_v<T> ? -above - 1 : -1;
      if (!(number > below && number < above))
        throw_json("a number is outside the range of its field");
    }
    ::nlohmann::from_json(j, value);
  }
};
}  // namespace detail

template <class T>
Result<T> from_json(const Json& value, const std::string& object) {
  try {
    return value.get<T>();
  } catch (const std::exception& e) {
    return fail(std::string("unexpected content: ") + e.what(), object);
  }
}
template <class T>
Result<T> from_json_text(std::string_view text, const std::string& object, JsonLimits limits = {}) {
  auto value = parse_json(text, object, limits);
  if (!value) return fail(value.error());
  return from_json<T>(*value, object);
}
template <class T>
std::string to_json_text(const T& value) {
  return dump_json(Json(value));
}

}  // namespace stoker

namespace nlohmann {

// One base for all integers that the documents hold: see WholeNumber. They stand first: what
// follows may use them, and a class cannot be given another form after its first use.
template <>
struct adl_serializer<int> : stoker::detail::WholeNumber<int> {};
template <>
struct adl_serializer<unsigned> : stoker::detail::WholeNumber<unsigned> {};
template <>
struct adl_serializer<long> : stoker::detail::WholeNumber<long> {};
template <>
struct adl_serializer<unsigned long> : stoker::detail::WholeNumber<unsigned long> {};
template <>
struct adl_serializer<unsigned short> : stoker::detail::WholeNumber<unsigned short> {};
// JSON has no NaN and no infinity; a training's own figures do. They are text here, so that
// they come back as they were: "nan" "inf" "-inf". Null is read as NaN.
template <>
struct adl_serializer<double> {
  static void to_json(json& j, double value) {
    if (std::isfinite(value))
      ::nlohmann::to_json(j, value);
    else
      j = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  static void from_json(const json& j, double& value) {
    if (j.is_null() || j == "nan")
      value = std::numeric_limits<double>::quiet_NaN();
    else if (j == "inf" || j == "-inf")
      value = (j == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
    else
      ::nlohmann::from_json(j, value);
  }
};
template <class Tag>
struct adl_serializer<stoker::Name<Tag>> {
  static void to_json(json& j, const stoker::Name<Tag>& n) { j = n.text; }
  static void from_json(const json& j, stoker::Name<Tag>& n) { n.text = j.get<std::string>(); }
};
template <class Tag, class Rep>
struct adl_serializer<stoker::Number<Tag, Rep>> {
  static void to_json(json& j, const stoker::Number<Tag, Rep>& n) { j = n.value; }
  static void from_json(const json& j, stoker::Number<Tag, Rep>& n) { n.value = j.get<Rep>(); }
};
template <>
struct adl_serializer<stoker::JobId> {
  static void to_json(json& j, const stoker::JobId& id) { j = id.text(); }
  static void from_json(const json& j, stoker::JobId& id);  // json.cpp
};
template <>
struct adl_serializer<stoker::Duration> {
  static void to_json(json& j, const stoker::Duration& d) { j = d.count(); }
  static void from_json(const json& j, stoker::Duration& d) {
    d = stoker::Duration(j.get<std::int64_t>());
  }
};
template <class Clock>
struct adl_serializer<std::chrono::time_point<Clock, stoker::Duration>> {
  using Point = std::chrono::time_point<Clock, stoker::Duration>;
  static void to_json(json& j, const Point& p) { j = p.time_since_epoch().count(); }
  static void from_json(const json& j, Point& p) {
    p = Point(stoker::Duration(j.get<std::int64_t>()));
  }
};
template <class T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& j, const std::optional<T>& o) {
    if (o)
      j = *o;
    else
      j = nullptr;
  }
  static void from_json(const json& j, std::optional<T>& o) {
    if (j.is_null())
      o.reset();
    else
      o = j.get<T>();
  }
};
template <stoker::NamedEnum E>
struct adl_serializer<E> {
  static void to_json(json& j, E value) { j = std::string(stoker::name_of(value)); }
  static void from_json(const json& j, E& value) {
    const auto found = stoker::enum_from<E>(j.get<std::string>());
    if (!found) stoker::detail::throw_json("unknown name " + j.dump());
    value = *found;
  }
};
template <class... Ts>
requires(requires { Ts::kKind; } && ...) struct adl_serializer<std::variant<Ts...>> {
  template <class T>
  static constexpr bool kHidden = requires(T alternative) {
    alternative.kind;
  };
  static_assert(!(kHidden<Ts> || ...), "\"kind\" names the alternative: call the member otherwise");
  static void to_json(json& j, const std::variant<Ts...>& v) {
    std::visit(
        [&j](const auto& value) {
          j = value;
          if (!j.is_object()) j = json::object();
          j["kind"] = std::decay_t<decltype(value)>::kKind;
        },
        v);
  }
  static void from_json(const json& j, std::variant<Ts...>& v) {
    const std::string kind = j.at("kind").get<std::string>();
    if (!((kind == Ts::kKind ? (v = j.get<Ts>(), true) : false) || ...))
      stoker::detail::throw_json("unknown kind \"" + kind + "\"");
  }
};

}  // namespace nlohmann

// Inside a struct: its members for JSON, and member-wise equality. The conversions are templates,
// so that only a file that converts a type pays for compiling it.
#define STOKER_FIELDS(Type, ...)                                                            \
  template <class J>                                                                        \
  friend void to_json(J& nlohmann_json_j, const Type& nlohmann_json_t) {                    \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))                \
  }                                                                                         \
  template <class J>                                                                        \
  friend void from_json(const J& nlohmann_json_j, Type& nlohmann_json_t) {                  \
    const Type nlohmann_json_default_obj{};                                                 \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM_WITH_DEFAULT, __VA_ARGS__)) \
  }                                                                                         \
  friend bool operator==(const Type&, const Type&) = default;
// The same for a struct without members.
#define STOKER_NO_FIELDS(Type)              \
  template <class J>                        \
  friend void to_json(J& j, const Type&) {  \
    j = J::object();                        \
  }                                         \
  template <class J>                        \
  friend void from_json(const J&, Type&) {} \
  friend bool operator==(const Type&, const Type&) = default;

// For a type that is large or converted in many files: its conversion is compiled once. The first
// macro stands after the type, at global scope, in its header; the second in one source file.
#define STOKER_JSON_ONCE(Type)                               \
  template <>                                                \
  struct nlohmann::adl_serializer<Type> {                    \
    static void to_json(nlohmann::json& j, const Type& t);   \
    static void from_json(const nlohmann::json& j, Type& t); \
  };
#define STOKER_JSON_ONCE_SOURCE(Type)                                                \
  void nlohmann::adl_serializer<Type>::to_json(nlohmann::json& j, const Type& t) {   \
    using stoker::detail::call_to_json;                                              \
    call_to_json(j, t);                                                              \
  }                                                                                  \
  void nlohmann::adl_serializer<Type>::from_json(const nlohmann::json& j, Type& t) { \
    using stoker::detail::call_from_json;                                            \
    call_from_json(j, t);                                                            \
  }
