// LineShapes: two lines have one shape if they are equal but for their digits, digit for digit. What
// was found out about a line holds for all lines of its shape (block_expression.hpp, step_places.hpp),
// so a training's lines are looked at in full a few times, not a million times. A line is taken for
// known only after every byte of it was compared. Bounded; not for two threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/step_places.hpp"

namespace stoker::diagnose {

class LineShapes {
 public:
  static constexpr std::size_t kLongest = 2048;  // bytes of a line that may have a shape

  struct Shape {
    std::string text;  // its digits are '0'
    std::vector<unsigned> ids;  // of the expressions that may match; the iteration pattern only
                                // if the line must be parsed each time
    bool is_step = false;
    StepPlaces places;
  };
  static std::uint64_t hash(std::string_view line);  // of its shape
  static std::string shape_text(std::string_view line);

  // Null: not known. The answer lasts until learn().
  const Shape* find(std::string_view line, std::uint64_t hash);
  // True: lines of this shape were there before, and enough is gained by what is known that one
  // more may be learnt; the caller calls learn().
  bool worth_learning(std::uint64_t hash);
  const Shape* learn(Shape shape, std::uint64_t hash);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t place = 0;  // in shapes_, from 1; 0 = free
  };
  void forget();

  std::vector<Shape> shapes_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> seen_;
  std::size_t bytes_ = 0;
  std::int64_t credit_ = 8192;
};

}  // namespace stoker::diagnose
