// Which lines are seen, and when.
#include "sim/universe/script_eyes.hpp"

#include <utility>

namespace stoker::sim {
namespace {

constexpr double kLoss = 2.0;

// Of all daemons' hosts the same clock.
WallTime wall_at(Instant now) {
  return WallTime(now.time_since_epoch());
}

}  // namespace

void ScriptEyes::begin(const std::vector<core::Cursor>& cursors) {
  beats_ = watch::ScriptBeats(policy_, cursors);
  live_ = false;
  taken_ = 0;
  for (const core::Cursor& cursor : cursors)
    if (cursor.path == beats_.cursor().path) taken_ = cursor.line;
}

void ScriptEyes::set_generation(Generation live, Instant now) {
  live_ = live.value != 0;
  beats_.set_generation(live, now, wall_at(now));
}

void ScriptEyes::read(const ScriptLine& line, Instant now) {
  if (line.saved) return beats_.saved(line.iteration);
  watch::ScriptIteration completed;
  completed.iteration = line.iteration;
  completed.elapsed_ms = line.elapsed_ms;
  completed.total = total_;
  completed.loss = kLoss;
  beats_.completed(completed, now, wall_at(now));
}

std::vector<core::Input> ScriptEyes::look(const std::vector<ScriptLine>& lines, Instant now,
                                          bool blind, bool at_once) {
  while (!blind && taken_ < lines.size() && lines[taken_].seen_from <= now)
    read(lines[taken_++], now);
  if (!live_ && broken_ == Guard::Stillness) return {};
  auto digest = beats_.poll(now, at_once);
  if (!digest) return {};
  core::Cursor cursor = beats_.cursor();
  cursor.line = taken_;
  std::vector<core::Input> inputs;
  inputs.push_back({policy_.run, *std::move(digest), {std::move(cursor)}});
  return inputs;
}

}  // namespace stoker::sim
