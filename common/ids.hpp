// Strong identifiers: a JobId cannot be passed where a Generation is wanted. Two shapes: names
// (text) and numbers.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace stoker {

template <class Tag>
struct Name {
  std::string text;

  Name() = default;
  explicit Name(std::string t) : text(std::move(t)) {}
  [[nodiscard]] bool empty() const { return text.empty(); }
  auto operator<=>(const Name&) const = default;
};

template <class Tag, class Rep>
struct Number {
  Rep value{};

  constexpr Number() = default;
  constexpr explicit Number(Rep v) : value(v) {}
  constexpr auto operator<=>(const Number&) const = default;
  [[nodiscard]] constexpr Number next() const { return Number(static_cast<Rep>(value + 1)); }
};

using RunName = Name<struct RunTag>;    // [A-Za-z0-9][A-Za-z0-9._-]{0,63}
using NodeName = Name<struct NodeTag>;  // as the scheduler names it: n01
using Token =
    Name<struct TokenTag>;  // one submission: <run>-<order number>-<random hex>, always unique
using EffectKey = Name<struct EffectTag>;  // makes an effect idempotent: <run>/<seq>/<ordinal>

using Generation =
    Number<struct GenerationTag, std::uint32_t>;  // one job start that owns the run; 0 = none
using Attempt =
    Number<struct AttemptTag, std::uint32_t>;  // one start of the ranks in a generation, from 1
using OrderNumber = Number<struct OrderTag, std::uint32_t>;    // orders/000042.json
using Iteration = Number<struct IterationTag, std::uint64_t>;  // completed optimizer steps
using Rank = Number<struct RankTag, std::uint32_t>;
using Epoch =
    Number<struct EpochTag, std::uint32_t>;  // of the daemon's lease; agents refuse older ones
using Sequence = Number<struct SequenceTag, std::uint64_t>;  // row number of the journal, from 1

// A job of a scheduler: its array's id and the task in it (0 when it is no array). `text` forms:
// "123", "123_4".
struct JobId {
  std::uint64_t job = 0;
  std::uint32_t task = 0;
  auto operator<=>(const JobId&) const = default;
  [[nodiscard]] std::string text() const {
    return task == 0 ? std::to_string(job) : std::to_string(job) + "_" + std::to_string(task);
  }
};

}  // namespace stoker
