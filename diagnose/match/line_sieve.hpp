// LineSieve: which lines of a log need a look, and what for. Lines of a known shape cost a
// comparison; all others are searched by Vectorscan, in runs as long as they come. The answer is
// the same as if each line had been searched alone for every expression. One a thread; the logs of
// a thread share it, so that what one taught the next one knows.
#pragma once

#include <functional>

#include "diagnose/match/line_shapes.hpp"
#include "diagnose/match/pattern_set.hpp"

namespace stoker::diagnose {

class LineSieve {
 public:
  // `iteration`: the place of the expression that finds lines which may tell an iteration.
  LineSieve(const PatternSet& patterns, unsigned iteration)
      : patterns_(&patterns), scratch_(patterns), iteration_(iteration) {}

  struct Line {
    std::uint64_t number;           // in the block, from 0
    std::string_view text;          // without the newline
    std::span<const unsigned> ids;  // ascending; expressions that may match
    const StepPlaces* step;         // not null: an iteration line, and where its numbers are
  };
  using Take = std::function<void(const Line&)>;
  // Calls `take` for each line on which something may match, in order. `block` holds whole lines;
  // the last one may lack its newline. Returns the number of lines.
  std::uint64_t block(std::string_view block, const Take& take);

  // Each line is searched, and nothing is learnt: the yardstick of the tests.
  void search_all() { learns_ = false; }
  // As it was made: what comes next hangs on nothing before it.
  void forget() { shapes_ = LineShapes(); }

 private:
  LineShapes::Known learn(std::string_view line);
  std::uint64_t search(std::string_view run, std::uint64_t number, const Take& take);

  const PatternSet* patterns_;
  PatternSet::Scratch scratch_;
  LineShapes shapes_;
  unsigned iteration_;
  bool learns_ = true;
};

}  // namespace stoker::diagnose
