// LineShapes: lines have one shape if they are equal once each run of digits is a single '0'
// (groups of thousands keep their length). What was found out about a line holds for all lines of
// its shape (block_expression.hpp, step_places.hpp), so a training's lines are searched in full a
// few times, not a million times. Lines whose digits also stand in the same columns have one print:
// the quick way to the shape. A line is taken for known only after every byte of it was compared.
// Bounded; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/parse/step_places.hpp"

namespace stoker::diagnose {

// The text of a line's shape, and the runs that it left out.
class ShapeText {
 public:
  static constexpr std::size_t kLongest = 2048;  // bytes of a line that has a shape
  static constexpr std::size_t kMostRuns = 256;
  // False: the line has none (too long, too many numbers, a number too long).
  bool read(std::string_view line);
  [[nodiscard]] std::string_view text() const { return {text_.data(), size_}; }
  [[nodiscard]] std::span<const DigitRun> runs() const { return {runs_.data(), count_}; }

 private:
  void put_run(std::string_view line, DigitRun run);
  std::array<char, kLongest + 16> text_;
  std::array<DigitRun, kMostRuns> runs_;
  std::size_t size_ = 0, count_ = 0;
};

class LineShapes {
 public:
  struct Shape {
    std::string text;
    std::vector<unsigned> ids;  // of the expressions that may match; the iteration pattern only
                                // if the line must be parsed each time
    StepForm form;
  };
  struct Known {
    const Shape* shape = nullptr;  // null: this line must be searched; lasts until the next call
    const StepPlaces* places = nullptr;  // not null: of a step; lasts as long
  };
  // The next line, when it is like one that came behind such a line as the last one: no search for
  // its newline either. Else null, and find() is the way. `at` < `end`; `length` without newline.
  Known follow(const char* at, const char* end, std::size_t& length);
  Known find(std::string_view line);
  // After find() said nothing: is it worth learning this line's shape? It is when it was there
  // before and what is known already was worth it. Then the caller finds out and calls learn().
  bool worth_learning();
  [[nodiscard]] std::string_view text() const { return now_.text(); }  // of the shape
  Known learn(Shape shape);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t place = 0;  // from 1; 0 = free
  };
  struct Print {
    std::uint32_t begin = 0, size = 0;  // of its text in print_text_
    std::uint32_t shape = 0;
    std::array<std::uint32_t, 2> next{};  // the prints that followed last, from 1; 0 = none
    StepPlaces places;
  };
  Known known_by(std::uint32_t print);
  [[nodiscard]] std::string_view text_of(const Print& print) const {
    return {print_text_.data() + print.begin, print.size};
  }
  Known known_by_shape(const Shape& shape);
  void remember(std::string_view line, std::uint64_t hash, std::uint32_t shape);
  void forget();

  ShapeText now_;
  bool has_shape_ = false;
  std::uint64_t now_hash_ = 0;
  StepPlaces now_places_;
  std::vector<Shape> shapes_;
  std::vector<Print> prints_;
  std::uint32_t latest_ = 0;  // print, from 1
  std::vector<Slot> shape_slots_, print_slots_;
  std::vector<std::uint32_t> seen_shapes_, seen_prints_;
  std::vector<char> print_text_;  // of all prints, one behind the other; each digit is '0'
  std::size_t shape_bytes_ = 0;
  std::int64_t credit_ = 8192;
};

}  // namespace stoker::diagnose
