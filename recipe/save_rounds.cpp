// Pure arithmetic; see the header.
#include "recipe/save_rounds.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace stoker::recipe {

Status check_save_rounds(const std::vector<SaveRound>& rounds) {
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    if (rounds[i].every == 0) return fail(fmt::format("round {}: every must be at least 1", i + 1));
    if (i + 1 < rounds.size() && !rounds[i].until)
      return fail(fmt::format("round {} has no until, so round {} is never reached", i + 1, i + 2));
    if (i > 0 && rounds[i].until && *rounds[i].until <= *rounds[i - 1].until)
      return fail(fmt::format("round {}: until must be larger than that of round {}", i + 1, i));
  }
  return ok();
}

bool save_due(const std::vector<SaveRound>& rounds, Iteration iteration) {
  if (iteration.value == 0) return false;
  for (const SaveRound& round : rounds)
    if (!round.until || iteration.value <= *round.until) return iteration.value % round.every == 0;
  return false;
}

std::uint64_t count_saves(const std::vector<SaveRound>& rounds, Iteration last) {
  std::uint64_t saves = 0;
  std::uint64_t before = 0;
  for (const SaveRound& round : rounds) {
    const std::uint64_t end = std::min(round.until.value_or(last.value), last.value);
    if (end > before) saves += end / round.every - before / round.every;
    before = std::max(before, end);
  }
  return saves;
}

Duration young_interval(Duration save, Duration mtbf) {
  return from_seconds(std::sqrt(2 * to_seconds(save) * to_seconds(mtbf)));
}

Duration daly_interval(Duration save, Duration mtbf) {
  const double c = to_seconds(save);
  const double m = to_seconds(mtbf);
  if (c >= 2 * m) return mtbf;
  const double ratio = c / (2 * m);
  return from_seconds(std::sqrt(2 * c * m) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - c);
}

}  // namespace stoker::recipe
