// Trail: what a run logged of itself, iteration by iteration and thinned with age, and what follows
// for a start that trains some of it again: the same samples, the same learning rate, about the
// same loss. It needs nothing but log lines, so it holds for any training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "wire/resume_audit.hpp"

namespace stoker::core {

struct TrailPoint {
  Iteration iteration;
  std::uint64_t samples = 0, tokens = 0;  // consumed; 0 = unknown
  double learning_rate = 0;               // 0 = unknown
  double loss = 0;                        // mean of `count` iterations
  std::uint64_t count = 0;
  double scale = 0;
  double rate_scale = 1;  // what rollbacks had made of the learning rate by then
  STOKER_FIELDS(TrailPoint, iteration, samples, tokens, learning_rate, loss, count, scale,
                rate_scale)
};

// What a start is held against.
struct ResumeCheck {
  bool due = false;        // an attempt began and has not shown an iteration yet
  bool rate_due = false;   // nor a learning rate
  bool level_due = false;  // its first losses are being gathered
  bool order_due = false;  // and compared one by one with those logged before
  bool told = false;       // the agents said where it resumes
  Iteration from;          // there
  Iteration saved;         // newest checkpoint that was there
  double rate_factor = 1;  // what the newest rollback asked for
  std::uint64_t skip = 0;
  bool rolled_back = false;
  bool changed = false;  // its configuration is not that of the generation before
  std::uint32_t ranks = 0, ranks_before = 0;
  std::uint32_t readings = 0;
  std::uint64_t count = 0;
  double sum = 0;  // of `count` losses
  STOKER_FIELDS(ResumeCheck, due, rate_due, level_due, order_due, told, from, saved, rate_factor,
                skip, rolled_back, changed, ranks, ranks_before, readings, count, sum)
};

struct Trail {
  std::vector<TrailPoint> points;  // of the line that is trained on, oldest first
  std::vector<TrailPoint> left;    // of the line that was left at the last start, after that start
  std::vector<Iteration> breaks;   // right after these the line left samples out
  Iteration saved;  // newest checkpoint of the line that log lines or agents reported
  ResumeCheck check;
  bool as_is = false;  // a person takes the next start as it is
  // Of the newest rollback: starts behind it may show what was logged before it, or this.
  double rate_factor = 1;
  std::uint64_t skip = 0;
  STOKER_FIELDS(Trail, points, left, breaks, saved, check, as_is, rate_factor, skip)
};

void record(Trail& trail, const TrailPoint& point);
// The iterations after `from` are trained again: their points become the line that was left.
void turn_back(Trail& trail, Iteration from);
// After turn_back: the first iteration that a start at `from` shows may have left samples out.
void note_break(Trail& trail, Iteration from, const TrailPoint& first);

struct Range {
  double low = 0, high = 0;
};
// What the line logged for an iteration, between its neighbours or a little beyond the newest;
// empty where it knows nothing. Samples grow by a batch an iteration, but for the breaks.
std::optional<Range> samples_at(const Trail& trail, Iteration iteration);
std::optional<Range> learning_rate_at(const std::vector<TrailPoint>& line, Iteration iteration);
// Mean loss of the iterations in (after, until]; empty without any.
std::optional<double> mean_loss(const std::vector<TrailPoint>& line, Iteration after,
                                Iteration until);
// How the losses of single iterations that both lines have follow each other, -1 to 1: near 1 where
// the same data were read in the same order. Empty with fewer than `least` in common.
std::optional<double> likeness(const std::vector<TrailPoint>& one,
                               const std::vector<TrailPoint>& other, std::size_t least);

// The first iteration that a start shows, against what was logged before. Items are those that
// could be compared; `equal` says how it went.
std::vector<wire::AuditItem> compare_start(const Trail& trail, const TrailPoint& first);
// Its first learning rate.
std::optional<wire::AuditItem> compare_rate(const Trail& trail, const TrailPoint& first);
// The loss scale that it begins with, of mixed precision in fp16.
std::optional<wire::AuditItem> compare_scale(const Trail& trail, const TrailPoint& first);
// Its first losses: an item that is not equal when they are of another training altogether.
std::optional<wire::AuditItem> compare_level(const Trail& trail);

inline constexpr std::size_t kTrailPoints = 128;

}  // namespace stoker::core
