#include "core/signals/norms.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "core/signals/robust.hpp"
#include "wire/step_losses.hpp"

namespace stoker::core::signals {
namespace {

constexpr std::uint32_t kToLearn = 16;    // readings; until then nothing rises
constexpr std::uint32_t kMemory = 64;     // readings that the usual is a mean of
constexpr double kRise = 2;               // times the usual
constexpr double kNoise = 6;              // times the spread, above the usual
constexpr std::uint32_t kCalm = 8;        // calm readings in a row end a rise
constexpr std::uint32_t kNewUsual = 200;  // risen readings in a row are the usual from now on

// To six digits: this is part of the state, which is written often.
double rounded(double value) {
  char text[32];
  const auto written =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, 5);
  std::from_chars(text, written.ptr, value);
  return value;
}

// How far a group lies above its usual; more than 1 is a rise.
double height(const NormWatch& w, std::size_t group, double norm) {
  const double usual = w.usual[group];
  if (usual <= 0) return 0;  // it had no gradient until now
  return (norm - usual) / std::max((kRise - 1) * usual, kNoise * w.spread[group]);
}

void learn(NormWatch& w, const std::vector<double>& norms) {
  w.seen = std::min(w.seen + 1, kMemory);
  const double weight = 1.0 / w.seen;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (norms[i] <= 0) continue;
    if (w.usual[i] <= 0) {
      w.usual[i] = rounded(norms[i]);
      continue;
    }
    const double away = norms[i] - w.usual[i];
    w.usual[i] = rounded(w.usual[i] + weight * away);
    w.spread[i] = rounded(w.spread[i] + weight * (magnitude(away) - w.spread[i]));
  }
}

}  // namespace

void watch_norms(NormWatch& w, const std::vector<double>& norms, Iteration iteration) {
  if (norms.empty()) return;
  if (norms.size() != w.usual.size() || w.risen >= kNewUsual) {
    w = {};
    w.usual.assign(norms.size(), 0.0);
    w.spread.assign(norms.size(), 0.0);
  }
  if (w.seen < kToLearn) return learn(w, norms);
  std::size_t most = 0;
  double highest = 0;
  for (std::size_t i = 0; i < norms.size(); ++i)
    if (const double h = height(w, i, norms[i]); h > highest) most = i, highest = h;
  if (highest > 1) {
    w.calm = 0;
    ++w.risen;
    if (!w.rise)
      w.rise =
          Rise{wire::layer_group_name(most, norms.size()), iteration, w.usual[most], norms[most]};
    return;
  }
  w.risen = 0;
  if (++w.calm >= kCalm) w.rise.reset();
  learn(w, norms);
}

void forget_after(NormWatch& w, Iteration iteration) {
  if (w.rise && w.rise->iteration > iteration) w.rise.reset();
  w.calm = w.risen = 0;
}

std::string rise_text(const std::optional<Rise>& rise) {
  if (!rise) return "";
  return fmt::format(", that of {}{} rose first ({:.3g} -> {:.3g} by iteration {})",
                     rise->group.starts_with("layer") ? "" : "the ", rise->group, rise->usual,
                     rise->norm, rise->iteration.value);
}

}  // namespace stoker::core::signals
