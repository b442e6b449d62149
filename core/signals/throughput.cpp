// A one-sided cumulative sum (Page, Biometrika 41, 1954) of how far each point lies above what is
// usual, less the allowance kAllow, in units of the noise: S = max(0, S + (x - kAllow) / noise).
// The allowance is half of the smallest change that matters (Lorden 1971): what a day's heat does
// to a cluster (1-2 %, Llama 3) stays below it. The limit follows from the length that a run
// without any change has between two false alarms (Siegmund 1985): about exp(2 k h) / (2 k^2)
// points.
#include "core/signals/throughput.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/time.hpp"

namespace stoker::core::signals {
namespace {

constexpr std::size_t kUsual = 64, kToLearn = 12;  // points
constexpr std::uint32_t kStart = 3;                // points of an attempt that are its start
constexpr std::size_t kAttempt = 6;
constexpr double kAllow = 0.025;  // of the step time; a change of 5 % is the least that matters
constexpr double kLeastNoise = 0.0083;  // a third of the allowance
constexpr double kMostAPoint = 3;       // so that an evaluation or a save in a point proves nothing
constexpr double kLimit = 12;           // four clear points
constexpr double kRareLog = 26;         // 2 k h: one false alarm in e^26 / (2 k^2) points, 1e11
constexpr double kLeastChange = 0.035;  // median of the points since, before it is believed
constexpr Duration kLeastTime = 2min;   // a neighbour on the node comes and goes
constexpr double kBack = 0.5;           // of the change: below it the speed is as usual again
constexpr std::size_t kSince = 64;
constexpr double kNamed = 0.7;  // of the points: the same node held the slowest rank

struct SpeedNorm {
  double ms = 0, noise = 0;  // noise: share
};

SpeedNorm speed_norm(const SpeedWatch& w) {
  SpeedNorm norm;
  norm.ms = median(w.usual);
  if (norm.ms > 0) norm.noise = std::max(kLeastNoise, noise_of(w.usual) / norm.ms);
  return norm;
}

double limit_of(const SpeedNorm& norm) {
  const double allowance = kAllow / norm.noise;
  return std::max(kLimit, kRareLog / (2 * allowance));
}

void forget_change(SpeedWatch& w) {
  w.sum = 0;
  w.since.clear();
  w.since_tflops.clear();
  w.slowest.clear();
}

void begin_shape(SpeedWatch& w, const WorkShape& shape) {
  w.shape = shape;
  w.usual.clear();
  w.tflops.clear();
  w.attempt.clear();
  w.slow.reset();
  w.last_share = 0;
  forget_change(w);
}

// Empty: iterations of different work are mixed in the point.
std::optional<WorkShape> shape_of(const SpeedWatch& w, const SpeedPoint& p) {
  const std::uint64_t steps = p.iteration.value - w.iteration.value;
  WorkShape shape{0, 0, p.ranks};
  if (steps == 0) return std::nullopt;
  if (p.samples > w.samples && w.samples > 0) {
    if ((p.samples - w.samples) % steps != 0) return std::nullopt;
    shape.samples = (p.samples - w.samples) / steps;
  }
  if (p.tokens > w.tokens && w.tokens > 0) {
    if ((p.tokens - w.tokens) % steps != 0) return std::nullopt;
    shape.tokens = (p.tokens - w.tokens) / steps;
  }
  return shape;
}

std::string tflops_text(double before, double now) {
  return before > 0 && now > 0 ? fmt::format(", {:.1f} -> {:.1f} TFLOPs", before, now) : "";
}

std::string ms_text(double ms) {
  return fmt::format("{:.{}f} s", ms / 1000, ms < 10'000 ? 3 : 1);
}

SpeedVerdict while_slow(SpeedWatch& w, const SpeedPoint& p) {
  Slow& slow = *w.slow;
  keep(w.since, p.step_ms, 8);
  keep(w.since_tflops, p.tflops, 8);
  ++slow.points;
  if (p.slowest) ++slow.slowest[p.slowest->node];
  if (w.since.size() < 6) return {};
  const double now = median(w.since);
  if (now > slow.usual_ms * (1 + kBack * slow.share())) return {};
  const std::string text = fmt::format(
      "iterations take {} again (usually {}, {} while it was slow, from iteration {} on)",
      ms_text(now), ms_text(slow.usual_ms), ms_text(slow.now_ms), slow.from.value);
  w.slow.reset();
  forget_change(w);
  return {SpeedNews::AsUsual, text, {}};
}

SpeedVerdict slower(SpeedWatch& w, const SpeedPoint& p, const SpeedNorm& norm) {
  const double now = median(w.since);
  const double before = median(w.tflops), after = median(w.since_tflops);
  Slow slow{w.since_iteration, w.since_at, norm.ms, now, norm.noise, before, after, w.slowest, 0};
  slow.points = static_cast<std::uint32_t>(w.since.size());
  const double limit = limit_of(norm), sum = w.sum;
  w.slow = slow;
  w.last_share = slow.share();
  forget_change(w);
  std::string named;
  if (const auto node = slow_node(slow))
    named = fmt::format("; the slowest rank by its own compute time is on {}", node->text);
  return {
      SpeedNews::Slower,
      fmt::format("iterations take {} instead of {} (+{:.1f} %, noise {:.1f} %{}) since iteration "
                  "{}, found after {} (change score {:.0f}, limit {:.0f}){}",
                  ms_text(now), ms_text(norm.ms), 100 * slow.share(), 100 * norm.noise,
                  tflops_text(before, after), slow.from.value, format_duration(p.at - slow.at), sum,
                  limit, named),
      {}};
}

SpeedVerdict judge(SpeedWatch& w, const SpeedPoint& p) {
  const SpeedNorm norm = speed_norm(w);
  const double over = p.step_ms / norm.ms - 1;
  const double step = std::clamp((over - kAllow) / norm.noise, -kMostAPoint, kMostAPoint);
  if (w.sum + step <= 0) {
    forget_change(w);
    keep(w.usual, p.step_ms, kUsual);
    if (p.tflops > 0) keep(w.tflops, p.tflops, kUsual);
    return {};
  }
  if (w.since.empty()) {
    w.since_iteration = p.iteration;
    w.since_at = p.at;
  }
  w.sum += step;
  keep(w.since, p.step_ms, kSince);
  if (p.tflops > 0) keep(w.since_tflops, p.tflops, kSince);
  if (p.slowest) ++w.slowest[p.slowest->node];
  if (w.sum < limit_of(norm) || p.at - w.since_at < kLeastTime) return {};
  const auto clear = std::count_if(w.since.begin(), w.since.end(),
                                   [&](double ms) { return ms > norm.ms * (1 + kAllow); });
  const bool most = 4 * static_cast<std::size_t>(clear) >= 3 * w.since.size();
  if (most && median(w.since) >= norm.ms * (1 + kLeastChange)) return slower(w, p, norm);
  forget_change(w);
  return {};
}

}  // namespace

SpeedVerdict watch_speed(SpeedWatch& w, const SpeedPoint& p) {
  if (!(p.step_ms > 0 && p.step_ms < 1e12) || p.iteration <= w.iteration) {
    if (p.iteration < w.iteration) {  // back to an earlier checkpoint
      w.iteration = p.iteration;
      w.samples = p.samples;
      w.tokens = p.tokens;
    }
    return {};
  }
  const bool first = w.iteration.value == 0;
  const auto shape = first ? std::nullopt : shape_of(w, p);
  w.iteration = p.iteration;
  w.samples = p.samples;
  w.tokens = p.tokens;
  if (w.settle > 0) --w.settle;
  if (!shape || w.settle > 0) return {};
  if (!(*shape == w.shape)) {
    const bool was_slow = w.slow.has_value();
    begin_shape(w, *shape);
    if (!was_slow) return {};
    return {SpeedNews::AsUsual,
            "iterations now do different work, so earlier timings do not compare",
            {}};
  }
  const bool settled = w.attempt.size() + 1 == kAttempt;
  if (w.attempt.size() < kAttempt) w.attempt.push_back(p.step_ms);
  if (w.slow) {
    std::optional<bool> slow;  // what a bisection asks of each attempt
    if (settled) slow = median(w.attempt) > w.slow->usual_ms * (1 + kBack * w.slow->share());
    SpeedVerdict verdict = while_slow(w, p);
    verdict.attempt_slow = slow;
    return verdict;
  }
  if (w.usual.size() < kToLearn) {
    keep(w.usual, p.step_ms, kUsual);
    if (p.tflops > 0) keep(w.tflops, p.tflops, kUsual);
    return {};
  }
  const double usual = median(w.usual);
  SpeedVerdict verdict = judge(w, p);
  // That it is slow once more is for the sum above to say; that it is not, is known by now.
  if (settled && w.last_share > 0 && !w.slow &&
      median(w.attempt) <= usual * (1 + kBack * w.last_share))
    verdict.attempt_slow = false;
  return verdict;
}

void begin_attempt(SpeedWatch& w) {
  w.settle = kStart;
  w.attempt.clear();
  w.iteration = {};
  if (!w.slow) {
    forget_change(w);
  } else {  // other nodes, maybe
    w.slow->slowest.clear();
    w.slow->points = 0;
  }
  w.since.clear();
  w.since_tflops.clear();
}

std::optional<NodeName> slow_node(const Slow& slow) {
  for (const auto& [node, times] : slow.slowest)
    if (times >= 3 && times >= kNamed * slow.points) return node;
  return std::nullopt;
}

}  // namespace stoker::core::signals
