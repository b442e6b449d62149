// Set arithmetic on sorted names.
#include "core/nodes/bisect.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "core/sentence.hpp"

namespace stoker::core {

std::vector<NodeName> next_out(const Bisect& bisect, std::size_t free) {
  const auto& s = bisect.suspects;
  const std::size_t count = std::min(free, (s.size() + 1) / 2);
  return {s.begin(), s.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::uint32_t rounds_left(std::size_t suspects, std::size_t free) {
  if (free == 0) return 0;
  std::uint32_t rounds = 0;
  while (suspects > 1) {
    const std::size_t out = std::min(free, (suspects + 1) / 2);
    suspects = std::max(out, suspects - out);
    ++rounds;
  }
  return rounds;
}

std::string observe(Bisect& bisect, Iteration iteration, const std::vector<NodeName>& nodes,
                    bool slow) {
  if (bisect.suspects.empty()) return "";
  std::vector<NodeName> in = nodes, with, without;
  std::sort(in.begin(), in.end());
  const auto& s = bisect.suspects;
  std::set_intersection(s.begin(), s.end(), in.begin(), in.end(), std::back_inserter(with));
  std::set_difference(s.begin(), s.end(), in.begin(), in.end(), std::back_inserter(without));
  if (without.empty() && slow) return "";  // the same nodes: nothing learned
  const std::size_t before = s.size();
  bisect.suspects = slow ? with : without;
  bisect.rounds.push_back(
      {iteration, without, slow, static_cast<std::uint32_t>(bisect.suspects.size())});
  constexpr std::size_t kRoundsKept = 32;
  if (bisect.rounds.size() > kRoundsKept) bisect.rounds.erase(bisect.rounds.begin());
  const std::string seen = fmt::format(
      "{} it is {}", without.empty() ? "with all of them" : "without " + nodes_text(without),
      slow ? "still slow" : "as fast as before");
  if (bisect.suspects.empty())
    return fmt::format("{}: no single one of {} nodes explains the change", seen, bisect.of);
  if (bisect.suspects.size() == 1)
    return fmt::format("{}: {} is the one, of {} nodes in {} starts", seen,
                       bisect.suspects.front().text, bisect.of, bisect.rounds.size());
  constexpr std::size_t kListed = 32;  // `stoker bisect` lists them all
  return fmt::format("{}: {} of {} suspects are left{}", seen, bisect.suspects.size(), before,
                     bisect.suspects.size() > kListed ? "" : ", " + nodes_text(bisect.suspects));
}

}  // namespace stoker::core
