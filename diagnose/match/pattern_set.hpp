// PatternSet: many expressions looked for at once. Vectorscan finds the lines on which something
// may match, in one pass over a block of whole lines; RE2 confirms on the line and gives the
// captures. The block pass may report too much and never too little, so what counts is what RE2
// says about one line. Immutable once made; Scratch is one a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "diagnose/match/pattern_cache.hpp"

namespace stoker::diagnose {

class PatternSet {
 public:
  // Errors: an expression that one of the two engines refuses, named. With a cache that knows them
  // nothing is compiled; what is only needed for a line that hits is made when it is.
  static Result<PatternSet> compile(const std::vector<std::string>& expressions,
                                    const PatternCache* cache = nullptr);
  PatternSet(PatternSet&&) noexcept;
  PatternSet& operator=(PatternSet&&) noexcept;
  ~PatternSet();

  class Scratch {
   public:
    explicit Scratch(const PatternSet& set);
    Scratch(Scratch&&) noexcept;
    ~Scratch();

   private:
    friend class PatternSet;
    struct State;
    std::unique_ptr<State> state_;
  };

  // Calls `hit` once for each line of `block` on which something may match, in order: its number in
  // the block (from 0), its text without the newline, and the ascending places of the expressions.
  // `block` holds whole lines; the last one may lack its newline. Returns the number of lines.
  using Hit = std::function<void(std::uint64_t, std::string_view, std::span<const unsigned>)>;
  std::uint64_t scan(std::string_view block, Scratch& scratch, const Hit& hit) const;

  // True: what scan() reports of a line it reports too of the text that is left when each run of
  // digits, or some of them, becomes a '0', or as many as the run is long (block_expression.hpp).
  [[nodiscard]] bool digits_alike() const;

  // The first match of expression `which` in `line`: groups[0] is the whole of it (its name is ""),
  // then its named groups that took part. False: it does not match.
  struct Group {
    std::string_view name, text;
  };
  bool match(unsigned which, std::string_view line, std::vector<Group>& groups) const;

 private:
  struct Compiled;
  explicit PatternSet(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace stoker::diagnose
