// Cells: a screen as values: for each place a character and its shade. `layout` fills it, tests
// read it, the terminal draws it. All text passes here, so this is where text from outside becomes
// printable and where the width of a character is known (0 combining, 1, 2 wide). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::cli::top {

// Never the only sign: what a shade says stands in words or letters too.
enum class Shade : std::uint8_t { Plain, Dim, Bold, Good, Warn, Bad, Info };

struct Cell {
  std::string text = " ";  // one character with its combining marks; "" = second half of a wide one
  Shade shade = Shade::Plain;
  bool inverse = false;
  bool operator==(const Cell&) const = default;
};

struct Span {
  std::string text;
  Shade shade = Shade::Plain;
};
using Line = std::vector<Span>;

class Cells {
 public:
  Cells(int rows, int columns);

  // Writes what fits from `column` on; returns the column behind it. Rows outside are ignored.
  int put(int row, int column, std::string_view text, Shade shade = Shade::Plain);
  void put(int row, int column, const Line& line);
  // The whole row in inverse video.
  void invert(int row);

  [[nodiscard]] int rows() const { return rows_; }
  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] const Cell& at(int row, int column) const;
  [[nodiscard]] bool same_row(const Cells& other, int row) const;
  // The rows as lines without trailing blanks: what a golden holds.
  [[nodiscard]] std::string text() const;

 private:
  int rows_, columns_;
  std::vector<Cell> cells_;
};

// Columns that the printable form of `text` takes.
int width_of(std::string_view text);
// `text` in exactly `width` columns: filled with blanks, or cut, with "~" as its last column.
std::string fit(std::string_view text, int width);
// `text` in lines of at most `width` columns, cut at blanks where there are some.
std::vector<std::string> wrap(std::string_view text, int width);

}  // namespace stoker::cli::top
