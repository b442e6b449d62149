// Tolerances stand here with their reason.
#include "core/recover/resume_trail.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <span>

#include "core/signals/robust.hpp"

namespace stoker::core {
namespace {

constexpr double kRateTolerance = 0.1;   // of a learning rate: printed with three digits
constexpr double kRampBend = 0.3;        // of a gap: the batch may grow within
constexpr double kAnyRate = 1000;        // times the rates around a gap with a peak in it
constexpr std::uint64_t kBeyond = 5000;  // iterations past the newest point
constexpr std::size_t kLastBatches = 5;
constexpr std::size_t kLeftPoints = 64;
constexpr std::size_t kBreaks = 64;
constexpr std::size_t kRawPoints = 48;      // the newest are all kept
constexpr double kLongestSample = 1 << 20;  // tokens of a sample that a rollback left out, at most
constexpr std::uint64_t kScaleFor = 50;     // iterations in which a loss scale moves little, and
constexpr double kScaleMoves = 64;          // by how much it may
constexpr double kForeignLevel = 0.25;      // of the loss, and
constexpr double kForeignNoise = 10;        // times its noise: not the weights that were saved

std::pair<const TrailPoint*, const TrailPoint*> neighbours(const std::vector<TrailPoint>& line,
                                                           Iteration iteration) {
  const auto after =
      std::lower_bound(line.begin(), line.end(), iteration,
                       [](const TrailPoint& p, Iteration i) { return p.iteration < i; });
  const TrailPoint* b = after == line.end() ? nullptr : &*after;
  const TrailPoint* a = nullptr;
  if (b != nullptr && b->iteration == iteration)
    a = b;
  else if (after != line.begin())
    a = &*(after - 1);
  return {a, b};
}

// A value at an iteration, linear between two points; `slack`: share of their distance that a curve
// between them may bend.
Range between(double a, double b, double place, double slack) {
  const double middle = a + (b - a) * place;
  const double bend = signals::magnitude(b - a) * slack;
  return {middle - bend, middle + bend};
}

double place_of(const TrailPoint& a, const TrailPoint& b, Iteration i) {
  if (a.iteration == b.iteration) return 0;
  return static_cast<double>(i.value - a.iteration.value) /
         static_cast<double>(b.iteration.value - a.iteration.value);
}

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

std::string count(std::uint64_t value) {
  return fmt::format("{}", value);
}

// Without the straight line through the values: where the loss still falls, two different orders of
// the data fall together.
std::vector<double> detrended(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double mean = 0, slope = 0, spread = 0;
  for (const double v : values) mean += v / n;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double place = static_cast<double>(i) - (n - 1) / 2;
    slope += place * (values[i] - mean);
    spread += place * place;
  }
  std::vector<double> rest;
  for (std::size_t i = 0; i < values.size(); ++i)
    rest.push_back(values[i] - mean - slope / spread * (static_cast<double>(i) - (n - 1) / 2));
  return rest;
}

using Consumed = std::uint64_t TrailPoint::*;

// What an iteration took, at the median of the few around a point; 0: it is not known.
double batch_before(std::span<const TrailPoint> line, const TrailPoint& at, Consumed what) {
  std::vector<double> batches;  // one of them may be what a rollback left out
  for (const TrailPoint* p = &at; p != &line.front() && batches.size() < kLastBatches; --p) {
    const TrailPoint& before = *(p - 1);
    if (before.*what == 0 || before.*what >= p->*what) break;
    batches.push_back(static_cast<double>(p->*what - before.*what) /
                      static_cast<double>(p->iteration.value - before.iteration.value));
  }
  return batches.empty() ? 0 : signals::median(batches);
}
double batch_after(std::span<const TrailPoint> line, const TrailPoint& at, Consumed what) {
  const TrailPoint* last = &at;
  for (std::size_t i = 0; i < kLastBatches && last != &line.back(); ++i) ++last;
  return batch_before({&at, last + 1}, *last, what);
}

// Between two points with a break between them: from the one on the iteration's own side.
std::optional<Range> beside_break(std::span<const TrailPoint> line, const TrailPoint& a,
                                  const TrailPoint& b, bool behind, Iteration iteration,
                                  Consumed what) {
  double before = batch_before(line, a, what), after = batch_after(line, b, what);
  if (before == 0) before = after;
  if (after == 0) after = before;
  if (before == 0 || a.*what == 0 || b.*what == 0) return std::nullopt;
  const double low = std::min(before, after), high = std::max(before, after);
  if (behind) {
    const auto base = static_cast<double>(b.*what);
    const auto left = static_cast<double>(b.iteration.value - iteration.value);
    return Range{base - high * left, base - low * left};
  }
  const auto base = static_cast<double>(a.*what);
  const auto gone = static_cast<double>(iteration.value - a.iteration.value);
  return Range{base + low * gone, base + high * gone};
}

// Of samples or tokens, which only grow.
std::optional<Range> consumed_at(const Trail& trail, Iteration iteration, Consumed what) {
  const auto& line = trail.points;
  const auto [a, b] = neighbours(line, iteration);
  if (a == nullptr || a->*what == 0) return std::nullopt;
  if (b != nullptr) {
    if (b->*what == 0) return std::nullopt;
    const auto broken = [&](Iteration from, Iteration to) {
      return std::any_of(trail.breaks.begin(), trail.breaks.end(),
                         [&](Iteration at) { return from <= at && at < to; });
    };
    const bool behind = broken(a->iteration, iteration), ahead = broken(iteration, b->iteration);
    if (behind && ahead) return std::nullopt;
    if (behind || ahead) return beside_break(line, *a, *b, behind, iteration, what);
    const bool gap = b->iteration.value > a->iteration.value + 1;
    return between(static_cast<double>(a->*what), static_cast<double>(b->*what),
                   place_of(*a, *b, iteration), gap ? kRampBend : 0);
  }
  if (iteration.value - a->iteration.value > kBeyond) return std::nullopt;
  const double batch = batch_before(line, *a, what);
  if (batch == 0) return std::nullopt;
  const double grown = batch * static_cast<double>(iteration.value - a->iteration.value);
  const auto base = static_cast<double>(a->*what);
  return Range{base + 0.5 * grown, base + 2 * grown};  // the batch may be ramped up
}

double slack_of(const Range& known) {
  return 1 + 0.001 * known.high;
}

}  // namespace

void record(Trail& trail, const TrailPoint& point) {
  auto& points = trail.points;
  while (!points.empty() && points.back().iteration >= point.iteration) points.pop_back();
  points.push_back(point);
  if (points.size() <= kTrailPoints) return;
  // The one that is missed least: gaps grow with age, about a tenth of it for 100,000 iterations.
  std::size_t least = 1;
  double smallest = 0;
  for (std::size_t i = 1; i + kRawPoints < points.size(); ++i) {
    const auto gap =
        static_cast<double>(points[i + 1].iteration.value - points[i - 1].iteration.value);
    const auto age = static_cast<double>(point.iteration.value - points[i].iteration.value);
    if (i > 1 && gap / age >= smallest) continue;
    smallest = gap / age;
    least = i;
  }
  points.erase(points.begin() + static_cast<std::ptrdiff_t>(least));
}

void turn_back(Trail& trail, Iteration from) {
  std::vector<TrailPoint> left;
  auto& points = trail.points;
  const auto first = std::find_if(points.begin(), points.end(),
                                  [&](const TrailPoint& p) { return p.iteration > from; });
  left.assign(first, points.end());
  points.erase(first, points.end());
  std::erase_if(trail.breaks, [&](Iteration at) { return at >= from; });
  if (left.empty()) return;
  if (left.size() > kLeftPoints)
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(kLeftPoints), left.end());
  trail.left = std::move(left);
}

void note_break(Trail& trail, Iteration from, const TrailPoint& first) {
  const auto known = samples_at(trail, first.iteration);
  if (known && static_cast<double>(first.samples) > known->high + slack_of(*known))
    trail.breaks.push_back(from);
  if (trail.breaks.size() > kBreaks) trail.breaks.erase(trail.breaks.begin());
}

std::optional<Range> samples_at(const Trail& trail, Iteration iteration) {
  return consumed_at(trail, iteration, &TrailPoint::samples);
}

std::optional<Range> learning_rate_at(const std::vector<TrailPoint>& line, Iteration iteration) {
  const auto [a, b] = neighbours(line, iteration);
  if (a == nullptr || a->learning_rate <= 0) return std::nullopt;
  const std::uint64_t near = std::max<std::uint64_t>(20, iteration.value / 20);
  double other = a->learning_rate;
  bool peak = false;  // the end of a warm-up may lie between them
  if (b != nullptr) {
    other = b->learning_rate;
    peak = b->iteration.value - a->iteration.value > near;
  } else {
    if (iteration.value - a->iteration.value > near) return std::nullopt;
    if (a == &line.front()) {  // it may be warming up from nothing
      other *= static_cast<double>(iteration.value) /
               static_cast<double>(std::max<std::uint64_t>(1, a->iteration.value));
    } else {
      const TrailPoint& before = *(a - 1);
      const double slope = (a->learning_rate - before.learning_rate) /
                           static_cast<double>(a->iteration.value - before.iteration.value);
      other += slope * static_cast<double>(iteration.value - a->iteration.value);
    }
  }
  if (other <= 0) return std::nullopt;
  const double high = std::max(a->learning_rate, other);
  return Range{std::min(a->learning_rate, other), peak ? kAnyRate * high : high};
}

std::optional<double> mean_loss(const std::vector<TrailPoint>& line, Iteration after,
                                Iteration until) {
  double sum = 0;
  std::uint64_t n = 0;
  for (const TrailPoint& p : line)
    if (p.iteration > after && p.iteration <= until) {
      sum += p.loss * static_cast<double>(p.count);
      n += p.count;
    }
  if (n == 0) return std::nullopt;
  return sum / static_cast<double>(n);
}

std::optional<double> likeness(const std::vector<TrailPoint>& one,
                               const std::vector<TrailPoint>& other, std::size_t least) {
  std::vector<double> p, q;
  for (const TrailPoint& point : one) {
    if (point.count != 1) continue;
    const auto [a, b] = neighbours(other, point.iteration);
    if (b == nullptr || b->iteration != point.iteration || b->count != 1) continue;
    p.push_back(point.loss);
    q.push_back(b->loss);
  }
  if (p.size() < std::max<std::size_t>(least, 4)) return std::nullopt;
  p = detrended(p);
  q = detrended(q);
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    xx += p[i] * p[i];
    yy += q[i] * q[i];
    xy += p[i] * q[i];
  }
  if (xx <= 0 || yy <= 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

std::vector<wire::AuditItem> compare_start(const Trail& trail, const TrailPoint& first) {
  std::vector<wire::AuditItem> items;
  const ResumeCheck& check = trail.check;
  const std::uint64_t before = first.iteration.value - std::min(first.iteration.value, first.count);
  if (check.saved.value > 0 && !check.rolled_back && !check.told)
    items.push_back({"iteration", fmt::format("{} saved", check.saved.value),
                     fmt::format("{} resumed", before), before + 1 >= check.saved.value});
  if (check.told && first.iteration != check.from)  // programs count from 0 or from 1
    items.push_back({"iteration", fmt::format("{} loaded", check.from.value),
                     fmt::format("{} shown", first.iteration.value), first.iteration > check.from});
  const auto add_consumed = [&](const char* name, Consumed what, double skip) {
    const auto known = consumed_at(trail, first.iteration, what);
    if (!known || first.*what == 0) return;
    const double slack = slack_of(*known);
    const auto now = static_cast<double>(first.*what);
    items.push_back({name, count(static_cast<std::uint64_t>(known->low)), count(first.*what),
                     now >= known->low - slack && now <= known->high + slack + skip});
  };
  add_consumed("consumed samples", &TrailPoint::samples, static_cast<double>(check.skip));
  add_consumed("consumed tokens", &TrailPoint::tokens,
               static_cast<double>(check.skip) * kLongestSample);
  if (check.ranks_before > 0 && check.ranks > 0)
    items.push_back({"ranks", count(check.ranks_before), count(check.ranks), true});
  return items;
}

std::optional<wire::AuditItem> compare_rate(const Trail& trail, const TrailPoint& first) {
  const auto before = learning_rate_at(trail.points, first.iteration);
  if (!before || first.learning_rate <= 0) return std::nullopt;
  const auto fits = [&](double factor) {
    return first.learning_rate >= before->low * factor * (1 - kRateTolerance) &&
           first.learning_rate <= before->high * factor * (1 + kRateTolerance);
  };
  // Rollbacks since then have scaled it.
  const TrailPoint* point = neighbours(trail.points, first.iteration).first;
  const double ratio = point->rate_scale > 0 ? first.rate_scale / point->rate_scale : 1;
  return wire::AuditItem{"learning rate", number(before->high), number(first.learning_rate),
                         fits(1) || fits(trail.check.rate_factor) || fits(ratio)};
}

std::optional<wire::AuditItem> compare_scale(const Trail& trail, const TrailPoint& first) {
  const TrailPoint* before = neighbours(trail.points, first.iteration).first;
  if (before == nullptr || before->scale <= 0 || first.scale <= 0 ||
      first.iteration.value - before->iteration.value > kScaleFor)
    return std::nullopt;
  const double ratio = first.scale / before->scale;
  return wire::AuditItem{"loss scale", fmt::format("{:.10g}", before->scale),
                         fmt::format("{:.10g}", first.scale),
                         ratio <= kScaleMoves && ratio >= 1 / kScaleMoves};
}

// Held against the same iterations of the line that was left, or the last ones before the start,
// whichever is higher: a loss falls.
std::optional<wire::AuditItem> compare_level(const Trail& trail) {
  constexpr std::size_t kEnough = 8;
  const ResumeCheck& check = trail.check;
  std::vector<double> before;
  for (const TrailPoint& p : trail.points)
    if (p.count > 0 && p.iteration <= check.from) signals::keep(before, p.loss, kEnough);
  std::vector<double> all = before;
  for (const TrailPoint& p : trail.left) all.push_back(p.loss);
  if (all.size() < kEnough || check.count == 0) return std::nullopt;
  double level = signals::median(before);
  if (!trail.points.empty())
    level = std::max(
        level, mean_loss(trail.left, check.from, trail.points.back().iteration).value_or(level));
  if (level <= 0) return std::nullopt;
  const double noise = signals::noise_between_neighbours(all);
  const double now = check.sum / static_cast<double>(check.count);
  const double margin = std::max(kForeignNoise * noise, kForeignLevel * level);
  return wire::AuditItem{"loss", number(level), number(now), now <= level + margin};
}

}  // namespace stoker::core
