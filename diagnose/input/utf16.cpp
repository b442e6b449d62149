// Unit by unit.
#include "diagnose/input/utf16.hpp"

#include <utility>

namespace stoker::diagnose {

namespace {

constexpr unsigned kMark = 0xfeff, kNoCharacter = 0xfffd;

void append_utf8(unsigned code, std::string& out) {
  const auto tail = [&](unsigned shift) {
    out += static_cast<char>(0x80u | ((code >> shift) & 0x3fu));
  };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0u | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0u | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0u | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::optional<Utf16Text> Utf16Text::told_by(std::string_view head) {
  if (head.starts_with("\xff\xfe")) return Utf16Text(false);
  if (head.starts_with("\xfe\xff")) return Utf16Text(true);
  head = head.substr(0, 256);
  const std::size_t pairs = head.size() / 2;
  if (pairs < 8) return std::nullopt;
  std::size_t nul[2] = {0, 0};
  for (std::size_t i = 0; i < pairs * 2; ++i) nul[i % 2] += head[i] == '\0' ? 1 : 0;
  for (const bool big : {false, true})
    if (nul[big ? 0 : 1] * 10 >= pairs * 9 && nul[big ? 1 : 0] == 0) return Utf16Text(big);
  return std::nullopt;
}

void Utf16Text::feed(std::string_view bytes, std::string& utf8) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!half_) {
      half_ = byte;
      continue;
    }
    const unsigned unit = big_ ? (*half_ * 256u + byte) : (byte * 256u + *half_);
    half_.reset();
    const bool first = !std::exchange(begun_, true);
    if (first && unit == kMark) continue;
    const bool low = unit >= 0xdc00 && unit < 0xe000;
    if (high_ != 0) {
      append_utf8(low ? 0x10000u + ((high_ - 0xd800u) << 10) + (unit - 0xdc00u) : kNoCharacter,
                  utf8);
      high_ = 0;
      if (low) continue;
    }
    if (unit >= 0xd800 && unit < 0xdc00)
      high_ = unit;
    else
      append_utf8(low ? kNoCharacter : unit, utf8);
  }
}

}  // namespace stoker::diagnose
