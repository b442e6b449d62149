// Closed forms only.
#include "recipe/what_if.hpp"

#include <algorithm>
#include <cmath>

namespace stoker::recipe {

double expected_ettr(Duration interval, Duration save, Duration restart, Duration mtbf) {
  const double dt = to_seconds(interval);
  const double m = to_seconds(mtbf);
  if (dt <= 0 || m <= 0) return 0;
  const double lost = (to_seconds(restart) + dt / 2) / m;
  return std::max(0.0, 1 - lost) / (1 + to_seconds(save) / dt);
}

double short_of_nodes(double mean_out, std::uint32_t spares) {
  if (!(mean_out > 0)) return 0;
  double term = std::exp(-mean_out);
  double within = term;
  for (std::uint32_t k = 1; k <= spares; ++k) {
    term *= mean_out / k;
    within += term;
  }
  return std::clamp(1 - within, 0.0, 1.0);
}

double even_chance(Duration cost, Duration wait) {
  const double c = to_seconds(cost), w = to_seconds(wait);
  return c + w <= 0 ? 0 : w / (c + w);
}

}  // namespace stoker::recipe
