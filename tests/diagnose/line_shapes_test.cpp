// A line is known only when every byte of it is.
#include "diagnose/match/line_shapes.hpp"

#include <doctest/doctest.h>
#include <random>

using namespace stoker::diagnose;

namespace {

std::string any_line(std::mt19937_64& draw, std::size_t length) {
  std::string line;
  while (line.size() < length) line += draw() % 2 == 0 ? '4' : static_cast<char>('a' + draw() % 26);
  return line;
}

// Reads the line until its print is known, by find() or by follow().
LineShapes knowing(const std::string& line) {
  LineShapes shapes;
  for (int i = 0; i < 6; ++i)
    if (shapes.find(line).shape == nullptr && shapes.worth_learning())
      shapes.learn({.text = std::string(shapes.text()), .ids = {}, .form = {}});
  return shapes;
}

bool follows(LineShapes shapes, const std::string& line) {
  std::size_t length = 0;
  return shapes.follow(line.data(), line.data() + line.size(), length).shape != nullptr;
}

}  // namespace

TEST_CASE("line_shapes: one other byte at any place -> not known, one other digit -> known") {
  std::mt19937_64 draw(7);
  for (std::size_t length = 1; length <= 100; ++length) {
    const std::string line = any_line(draw, length);
    const LineShapes shapes = knowing(line);
    REQUIRE(follows(shapes, line));
    for (std::size_t at = 0; at < length; ++at) {
      std::string other = line;
      const bool digit = line[at] == '4';
      other[at] = static_cast<char>(line[at] ^ (1 << draw() % 8));
      const bool still = digit && other[at] >= '0' && other[at] <= '9';
      CHECK_MESSAGE(follows(shapes, other) == still, "byte ", at, " of ", other);
      if (!digit)
        CHECK_MESSAGE(LineShapes(shapes).find(other).shape == nullptr, "byte ", at, " of ", other);
    }
  }
}
