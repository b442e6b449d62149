// Terminal: the full screen by ncurses, and nothing else: draws cells, reads keys. It takes the
// terminal over when it is made and gives it back as it was when it goes; an abort gives it back
// too. One at a time, on one thread.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/top/cells.hpp"
#include "cli/top/selection.hpp"
#include "common/result.hpp"

struct screen;  // of ncurses

namespace stoker::cli::top {

class Terminal {
 public:
  // "" when `type` ($TERM) and the two descriptors can show a full screen; else why not.
  static std::string why_not(const std::string& type, int in, int out);

  // Error: the terminal's type is not known here.
  static Result<std::unique_ptr<Terminal>> open(const std::string& type, std::FILE* in,
                                                std::FILE* out, bool color);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] int rows() const;
  [[nodiscard]] int columns() const;
  // Only what differs from what was drawn before is sent.
  void draw(const Cells& cells);
  // The next key that is there, without waiting. `resized` becomes true when the size changed.
  std::optional<Key> key(bool& resized);
  [[nodiscard]] int input() const { return in_; }

 private:
  Terminal(screen* handle, int in, bool color);
  [[nodiscard]] unsigned long look_of(const Cell& cell) const;

  screen* handle_;
  int in_;
  bool color_, utf8_;
  std::optional<Cells> drawn_;
};

}  // namespace stoker::cli::top
