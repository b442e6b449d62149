// Utf16Text: a log written as UTF-16 (PowerShell's Tee-Object and '>'), detected by its byte-order
// mark or, without one, by every other byte of its head being NUL; made UTF-8 piece by piece.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker::diagnose {

class Utf16Text {
 public:
  // What the first bytes of a file are; none: no UTF-16.
  static std::optional<Utf16Text> told_by(std::string_view head);
  // Appends what `bytes` go on with. A half pair waits for the next call; what is no character
  // becomes U+FFFD.
  void feed(std::string_view bytes, std::string& utf8);

 private:
  explicit Utf16Text(bool big) : big_(big) {}
  bool big_;
  bool begun_ = false;
  std::optional<unsigned char> half_;  // the first byte of a unit
  unsigned high_ = 0;                  // the first unit of a pair, 0 = none
};

}  // namespace stoker::diagnose
