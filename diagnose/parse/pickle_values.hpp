// What a pickle was read into, and the one budget for all memory that this takes. The machine in
// pickle.cpp makes the values; unfolding writes them out as JSON, where a value that is named twice
// is there twice: that is where a small file becomes a large one.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "diagnose/parse/pickle.hpp"

namespace stoker::diagnose {

struct PickleValue {
  using Place = std::uint32_t;  // of a value among all of them
  enum class Kind { None, False, True, Int, Float, Text, List, Map, Opaque, Mark };
  Kind kind = Kind::None;
  std::int64_t integer = 0;
  double real = 0;
  std::string_view text;     // a part of the file
  std::vector<Place> items;  // of a map: key, value, key, value …
};
using PickleValues = std::deque<PickleValue>;

class PickleBudget {
 public:
  explicit PickleBudget(const PickleLimits& limits) : limits_(limits) {}
  // False: with these bytes the memory is spent, and the file is refused.
  bool take(std::size_t bytes);
  // False: as many values are there as may be, and the file is refused.
  bool has_room(std::size_t values);
  [[nodiscard]] const std::string& refused() const { return refused_; }  // why; empty: it is not

 private:
  const PickleLimits& limits_;
  std::size_t used_ = 0;
  std::string refused_;
};

// What the pieces cost, in bytes and with the allocator's share. A vector that grows holds up to
// three times its content while it moves.
inline constexpr std::size_t kGrowing = 3, kBlock = 64, kMemoEntry = 64, kMapEntry = 112;

// Incomplete when the budget is spent.
Json unfold_pickle(const PickleValues& values, PickleValue::Place root, const PickleLimits& limits,
                   PickleBudget& budget);

}  // namespace stoker::diagnose
