// See the header for the formulas and their sources.
#include "recipe/flops.hpp"

namespace stoker::recipe {

std::uint64_t parameter_count(const FlopsShape& m) {
  const std::uint64_t h = m.hidden;
  const std::uint64_t block = 4 * h * h + 2 * h * m.ffn + 9 * h + m.ffn;
  return m.vocabulary * h + m.sequence * h + m.layers * block + 2 * h;
}

double step_flops(FlopsConvention convention, const FlopsShape& m, std::uint64_t samples) {
  const auto L = static_cast<double>(m.layers);
  const auto h = static_cast<double>(m.hidden);
  const auto f = static_cast<double>(m.ffn);
  const auto s = static_cast<double>(m.sequence);
  const auto V = static_cast<double>(m.vocabulary);
  const double tokens = static_cast<double>(samples) * s;
  switch (convention) {
    case FlopsConvention::LegacyHardware: {
      const double k = m.recompute ? 4 : 3;
      const double logits = V / ((m.recompute ? 16 : 12) * L * h);
      return (m.glu ? 32 : 24) * k * tokens * L * h * h * (1 + s / (6 * h) + logits);
    }
    case FlopsConvention::Model:
      return 6 * tokens * (L * (4 * h * h + (m.glu ? 3 : 2) * h * f + s * h) + h * V);
    case FlopsConvention::Parameters:
      return tokens * (6 * static_cast<double>(parameter_count(m)) + 12 * L * h * s);
  }
  return 0;
}

double tflops(FlopsConvention convention, const FlopsShape& shape, std::uint64_t samples,
              Duration step, std::uint64_t world) {
  return step_flops(convention, shape, samples) /
         (to_seconds(step) * static_cast<double>(world) * 1e12);
}

}  // namespace stoker::recipe
