// The width of a character is that of the C library's tables for C.UTF-8, independent of the locale
// of the process: a screen is the same everywhere.
#include "cli/top/cells.hpp"

#include <algorithm>
#include <clocale>
#include <cwchar>

#include "cli/show/console.hpp"

namespace stoker::cli::top {
namespace {

constexpr std::size_t kMostBytes = 32;  // of a cell: combining marks have no end

class Utf8Locale {
 public:
  Utf8Locale() : before_(::uselocale(known())) {}
  ~Utf8Locale() { ::uselocale(before_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  static locale_t known() {
    static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return utf8;  // null where it is missing: then all that is not ASCII is "?"
  }
  locale_t before_;
};

struct Glyph {
  std::string text;
  int width = 1;
};

// The characters of printable text. What the C library does not know is "?".
std::vector<Glyph> glyphs(std::string_view outside) {
  const std::string text = printable(outside);
  std::vector<Glyph> found;
  found.reserve(text.size());
  const Utf8Locale locale;
  for (std::size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      found.push_back({std::string(1, text[i++]), 1});
      continue;
    }
    std::mbstate_t state{};
    wchar_t character = 0;
    const std::size_t bytes = std::mbrtowc(&character, &text[i], text.size() - i, &state);
    const bool good = bytes > 0 && bytes <= 4;
    const int width = good ? ::wcwidth(character) : -1;
    found.push_back({width < 0 ? "?" : text.substr(i, bytes), width < 0 ? 1 : width});
    if (good) {
      i += bytes;
      continue;
    }
    do ++i;
    while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80);
  }
  return found;
}

int columns_of(const std::vector<Glyph>& text) {
  int width = 0;
  for (const Glyph& glyph : text) width += glyph.width;
  return width;
}

}  // namespace

Cells::Cells(int rows, int columns) : rows_(std::max(rows, 1)), columns_(std::max(columns, 1)) {
  cells_.resize(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_));
}

const Cell& Cells::at(int row, int column) const {
  return cells_.at(static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
                   static_cast<std::size_t>(column));
}

int Cells::put(int row, int column, std::string_view text, Shade shade) {
  if (row < 0 || row >= rows_ || column < 0) return column;
  Cell* const cells = &cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_)];
  for (Glyph& glyph : glyphs(text)) {
    if (glyph.width == 0) {
      int base = column - 1;
      while (base > 0 && cells[base].text.empty()) --base;
      if (base >= 0 && cells[base].text.size() + glyph.text.size() <= kMostBytes)
        cells[base].text += glyph.text;
      continue;
    }
    if (column + glyph.width > columns_) return column;
    cells[column] = {std::move(glyph.text), shade, cells[column].inverse};
    if (glyph.width == 2) cells[column + 1] = {"", shade, cells[column + 1].inverse};
    column += glyph.width;
  }
  return column;
}

void Cells::put(int row, int column, const Line& line) {
  for (const Span& span : line) column = put(row, column, span.text, span.shade);
}

void Cells::invert(int row) {
  if (row < 0 || row >= rows_) return;
  for (int column = 0; column < columns_; ++column)
    cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(column)]
        .inverse = true;
}

bool Cells::same_row(const Cells& other, int row) const {
  if (other.rows_ != rows_ || other.columns_ != columns_) return false;
  for (int column = 0; column < columns_; ++column)
    if (!(at(row, column) == other.at(row, column))) return false;
  return true;
}

std::string Cells::text() const {
  std::string text;
  for (int row = 0; row < rows_; ++row) {
    std::string line;
    for (int column = 0; column < columns_; ++column) line += at(row, column).text;
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

int width_of(std::string_view text) {
  return columns_of(glyphs(text));
}

std::string fit(std::string_view outside, int width) {
  const std::vector<Glyph> text = glyphs(outside);
  if (width <= 0) return "";
  const bool cut = columns_of(text) > width;
  const int room = cut ? width - 1 : width;
  std::string out;
  int used = 0;
  for (const Glyph& glyph : text) {
    if (used + glyph.width > room) break;
    out += glyph.text;
    used += glyph.width;
  }
  if (cut) {
    out += '~';
    ++used;
  }
  return out + std::string(static_cast<std::size_t>(std::max(width - used, 0)), ' ');
}

std::vector<std::string> wrap(std::string_view outside, int width) {
  std::vector<std::string> lines;
  std::string line;
  int used = 0, blank_used = 0;  // blank: the last place where the line may be cut
  std::size_t blank = 0;
  width = std::max(width, 2);  // a wide character needs two
  for (const Glyph& glyph : glyphs(outside)) {
    if (used + glyph.width > width) {
      const bool at_blank = blank > 0;
      const std::string rest = at_blank ? line.substr(blank + 1) : "";
      lines.push_back(at_blank ? line.substr(0, blank) : line);
      line = rest;
      used = at_blank ? used - blank_used - 1 : 0;
      blank = 0;
      if (glyph.text == " " && line.empty()) continue;
    }
    if (glyph.text == " ") {
      blank = line.size();
      blank_used = used;
    }
    line += glyph.text;
    used += glyph.width;
  }
  lines.push_back(line);
  return lines;
}

}  // namespace stoker::cli::top
