// Result<T>: a value or an Error, with the names of std::expected (absent in C++20). For expected
// failures only; bugs abort through STOKER_CHECK (check.hpp). An Error is one line that people
// read: what happened, to which object, what to do.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "common/check.hpp"

namespace stoker {

struct Error {
  std::string what;    // "cannot parse manifest: unexpected end of input"
  std::string object;  // the file, job, host or key it happened to; may be empty
  std::string hint;    // what to do next; may be empty

  // "object: what; hint", in one line (control characters are replaced).
  [[nodiscard]] std::string message() const;
};

// Makes an Error from errno's text: `what: <strerror>`.
Error errno_error(int error_number, std::string what, std::string object, std::string hint = {});

struct Unexpected {
  Error error;
  explicit Unexpected(Error e) : error(std::move(e)) {}
};

inline Unexpected fail(std::string what, std::string object = {}, std::string hint = {}) {
  return Unexpected(Error{std::move(what), std::move(object), std::move(hint)});
}
inline Unexpected fail(Error error) {
  return Unexpected(std::move(error));
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit
  Result(Unexpected failure)                                               // NOLINT: implicit
      : content_(std::in_place_index<1>, std::move(failure.error)) {}

  [[nodiscard]] bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & {
    STOKER_CHECK(has_value(), error().message());
    return std::get<0>(content_);
  }
  const T& value() const& {
    STOKER_CHECK(has_value(), error().message());
    return std::get<0>(content_);
  }
  T&& value() && {
    STOKER_CHECK(has_value(), error().message());
    return std::get<0>(std::move(content_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { return std::get<1>(content_); }

  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(other));
  }

 private:
  std::variant<T, Error> content_;
};

// Success without a value: `return ok();`.
using Status = Result<std::monostate>;
inline Status ok() {
  return std::monostate{};
}

}  // namespace stoker

// Evaluates a Result; on failure returns its Error from the enclosing function, else declares
// `name` with the value.
#define STOKER_TRY(name, expression)                                \
  auto name##_result = (expression);                                \
  if (!name##_result) return ::stoker::fail(name##_result.error()); \
  auto& name = *name##_result
#define STOKER_TRY_STATUS(expression)                                                  \
  do {                                                                                 \
    if (auto status_ = (expression); !status_) return ::stoker::fail(status_.error()); \
  } while (false)
