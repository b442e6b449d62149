#include "wire/lineage.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace stoker::wire {
namespace {

// At least six digits, so that names sort; nothing else.
template <class T>
std::optional<T> digits(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.size() < 6)
    return std::nullopt;
  return value;
}

}  // namespace

bool accepts(const Lineage& lineage, Generation generation, Iteration iteration) {
  return std::any_of(lineage.begin(), lineage.end(), [&](const LineageEntry& e) {
    return e.generation == generation && iteration <= e.through;
  });
}

Lineage descend(const Lineage& parent, Iteration step, Generation child) {
  Lineage lineage;
  if (step.value > 0)
    for (LineageEntry entry : parent) {
      entry.through = std::min(entry.through, step);
      lineage.push_back(entry);
    }
  lineage.push_back({child, kNoBound});
  return lineage;
}

std::string checkpoint_name(Iteration iteration, Generation generation) {
  return fmt::format("step-{:06}.g{:06}", iteration.value, generation.value);
}

std::optional<CheckpointId> parse_checkpoint_name(std::string_view name) {
  if (!name.starts_with("step-")) return std::nullopt;
  const auto dot = name.find(".g");
  if (dot == std::string_view::npos) return std::nullopt;
  const auto iteration = digits<std::uint64_t>(name.substr(5, dot - 5));
  const auto generation = digits<std::uint32_t>(name.substr(dot + 2));
  if (!iteration || !generation) return std::nullopt;
  return CheckpointId{Iteration(*iteration), Generation(*generation)};
}

std::string generation_name(Generation generation) {
  return fmt::format("gen-{:06}", generation.value);
}

std::optional<Generation> parse_generation_name(std::string_view name) {
  if (!name.starts_with("gen-")) return std::nullopt;
  const auto number = digits<std::uint32_t>(name.substr(4));
  if (!number) return std::nullopt;
  return Generation(*number);
}

}  // namespace stoker::wire
