// The curve of a training that does well, and what ails it.
#include "sim/training/numbers.hpp"

#include <algorithm>

namespace stoker::sim {
namespace {

constexpr std::uint64_t kMostAtOnce = 4096;
constexpr double kCalmGradient = 0.2, kSickGradient = 3;

// About Gaussian with deviation 1: the sum of four even numbers from one hash.
double deviate(std::uint64_t order, std::uint64_t iteration) {
  std::uint64_t z = order * 0x9e3779b97f4a7c15ull + iteration * 0xd1342543de82ef95ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  double sum = -2;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>((z >> (16 * i)) & 0xffff) / 65536;
  return sum * 1.7320508;  // the deviation of the sum is 1 / sqrt 3
}

double level_at(Iteration at) {
  return 1.9 + 900.0 / (150.0 + static_cast<double>(at.value));
}

// How much higher the loss is, as a share of its level.
double raised(const Ailment& a, Iteration at) {
  if (at < a.onset) return 0;
  const auto age = static_cast<double>(at.value - a.onset.value);
  const auto lasts = static_cast<double>(std::max<std::uint64_t>(1, a.lasts));
  if (a.kind == Ailment::Kind::Spike) return age >= lasts ? 0 : a.height * (1 - age / lasts);
  if (a.kind == Ailment::Kind::Divergence) return a.height * std::min(1.0, (age + 1) / lasts);
  return 0;
}

}  // namespace

bool ails(const std::vector<Ailment>& ailments, Iteration at) {
  return std::any_of(ailments.begin(), ailments.end(), [&](const Ailment& a) {
    return raised(a, at) > 0 || (a.kind == Ailment::Kind::NotANumber && at >= a.onset);
  });
}

std::optional<double> loss_at(const NumbersShape& shape, const TrainingLine& line,
                              const std::vector<Ailment>& ailments, Iteration at) {
  double share = 1 + shape.noise * deviate(line.order, at.value);
  for (const Ailment& a : ailments) {
    if (a.kind == Ailment::Kind::NotANumber && at >= a.onset) return std::nullopt;
    share += raised(a, at);
  }
  return level_at(at) * share;
}

double gradient_norm_at(const std::vector<Ailment>& ailments, Iteration at) {
  double norm = kCalmGradient;
  for (const Ailment& a : ailments)
    if (raised(a, at) > 0) norm = kSickGradient;
  return norm;
}

double learning_rate_at(const NumbersShape& shape, const TrainingLine& line, Iteration at) {
  const std::uint64_t age = at.value - std::min(at.value, line.rate_from.value);
  const auto up = static_cast<double>(std::max<std::uint64_t>(1, shape.warm_up));
  return shape.learning_rate * line.lr_scale * std::min(1.0, static_cast<double>(age) / up);
}

std::uint64_t samples_at(const NumbersShape& shape, const TrainingLine& line, Iteration at) {
  return at.value * shape.batch + line.skipped;
}

wire::StepLosses losses_of(const NumbersShape& shape, const TrainingLine& line,
                           const std::vector<Ailment>& ailments, Iteration after, Iteration until) {
  wire::StepLosses losses;
  if (until <= after) return losses;
  const std::uint64_t first = until.value - std::min(until.value - after.value, kMostAtOnce) + 1;
  for (std::uint64_t n = first; n <= until.value; ++n) {
    wire::StepTold told;
    told.iteration = Iteration(n);
    told.loss = loss_at(shape, line, ailments, told.iteration);
    if (!told.loss) told.not_finite = 1;
    told.gradient_norm = gradient_norm_at(ailments, told.iteration);
    wire::add(losses, told);
  }
  return losses;
}

}  // namespace stoker::sim
