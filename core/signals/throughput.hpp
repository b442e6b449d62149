// SpeedWatch: has the training become slower than it usually is, from some moment on? Pure: points
// in, news out. A point is the median step time of the iterations of one digest. What is usual is
// learned for one shape of the work (samples and tokens an iteration, ranks): ramp-up and
// curriculum begin a new shape and are never held against an old one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "core/signals/robust.hpp"
#include "wire/agent_event.hpp"

namespace stoker::core::signals {

struct SpeedPoint {
  Instant at;
  Iteration iteration;
  double step_ms = 0, tflops = 0;
  std::uint64_t samples = 0, tokens = 0;  // consumed so far; 0 = unknown
  std::uint32_t ranks = 0;
  std::optional<wire::SlowestRank> slowest;
};

// The work of one iteration.
struct WorkShape {
  std::uint64_t samples = 0, tokens = 0;
  std::uint32_t ranks = 0;
  STOKER_FIELDS(WorkShape, samples, tokens, ranks)
};

struct Slow {  // a step change that was found
  Iteration from;
  Instant at;
  double usual_ms = 0, now_ms = 0, noise = 0;  // noise: share of the usual step time
  double usual_tflops = 0, now_tflops = 0;
  std::map<NodeName, std::uint32_t> slowest;  // how often a node held the slowest rank since, or
  std::uint32_t points = 0;                   // since the attempt began that is still slow
  bool no_single_node = false;                // a search has found that none explains it
  STOKER_FIELDS(Slow, from, at, usual_ms, now_ms, noise, usual_tflops, now_tflops, slowest, points,
                no_single_node)
  [[nodiscard]] double share() const { return usual_ms > 0 ? now_ms / usual_ms - 1 : 0; }
};

struct SpeedWatch {
  WorkShape shape;
  Iteration iteration;                      // of the point before
  std::uint64_t samples = 0, tokens = 0;    // likewise
  std::vector<double> usual, tflops;        // of the last points that were as usual
  double sum = 0;                           // the evidence for a change so far
  std::vector<double> since, since_tflops;  // points since the sum left zero
  Iteration since_iteration;
  Instant since_at;
  std::map<NodeName, std::uint32_t> slowest;
  std::uint32_t settle = 0;     // points of the attempt that are still its start
  std::vector<double> attempt;  // the first settled points of the attempt
  std::optional<Slow> slow;
  double last_share = 0;  // of the last change of this shape; 0 = no change yet
  STOKER_FIELDS(SpeedWatch, shape, iteration, samples, tokens, usual, tflops, sum, since,
                since_tflops, since_iteration, since_at, slowest, settle, attempt, slow, last_share)
};

enum class SpeedNews { Nothing, Slower, AsUsual };
struct SpeedVerdict {
  SpeedNews news = SpeedNews::Nothing;
  std::string evidence = {};
  std::optional<bool> attempt_slow = {};  // once an attempt, since a change was found
};

SpeedVerdict watch_speed(SpeedWatch& watch, const SpeedPoint& point);
// Another attempt: its first points are its start, what was usual stays.
void begin_attempt(SpeedWatch& watch);
// The node that held the slowest rank in most of the points since the change.
std::optional<NodeName> slow_node(const Slow& slow);

}  // namespace stoker::core::signals
