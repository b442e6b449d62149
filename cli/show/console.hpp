// Console: where a command's words go. Data on standard output, talk on standard error; colours
// only where a person looks at it (NO_COLOR, --color, TERM=dumb) and never as the only sign.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/printable.hpp"

namespace stoker::cli {

enum class ColorChoice { Auto, Always, Never };
enum class Ink { Plain, Bold, Dim, Red, Green, Yellow, Cyan };

class Console {
 public:
  using Sink = std::function<void(std::string_view)>;
  Console(Sink out, Sink err) : out_(std::move(out)), err_(std::move(err)) {}

  // Writes to the standard streams of this process; `out` is flushed after each call.
  static Console standard();

  void out(std::string_view text) const { out_(text); }
  void line(std::string_view text) const { out_(std::string(text) + "\n"); }
  // One line on the terminal: "stoker: text", made printable.
  void say(std::string_view text) const;
  void raw_error(std::string_view text) const { err_(text); }

  void use_color(bool on) { color_ = on; }
  [[nodiscard]] bool color() const { return color_; }
  [[nodiscard]] std::string paint(Ink ink, std::string_view text) const;

 private:
  Sink out_, err_;
  bool color_ = false;
};

// What --color and the environment ask for, on this standard output.
bool wants_color(ColorChoice choice);

}  // namespace stoker::cli
