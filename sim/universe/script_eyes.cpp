// Lines to beats.
#include "sim/universe/script_eyes.hpp"

#include <algorithm>
#include <utility>

namespace stoker::sim {
namespace {

const std::string kCursor = "script:sim";
constexpr double kLoss = 2.0;

std::int64_t ms(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

}  // namespace

ScriptEyes::ScriptEyes(const core::RunPolicy& policy, std::uint64_t total, Guard broken)
    : policy_(policy), total_(total), broken_(broken) {}

void ScriptEyes::begin(const std::vector<core::Cursor>& cursors) {
  taken_ = 0;
  memory_ = {};
  live_ = late_ = false;
  saved_ = {};
  durations_.clear();
  losses_ = {};
  folder_.reset();
  for (const core::Cursor& cursor : cursors) {
    if (cursor.path != kCursor) continue;
    taken_ = cursor.line;
    if (const auto memory = from_json_text<Memory>(cursor.parser_state, kCursor)) memory_ = *memory;
  }
}

void ScriptEyes::set_generation(Generation live, Instant now) {
  live_ = live.value != 0;
  if (!live_ || (folder_ && memory_.generation == live)) return;
  folder_.emplace(live, watch::digest_interval(policy_.hang.floor));
  late_ = false;
  durations_.clear();
  losses_ = {};
  if (memory_.generation != live) memory_ = Memory{live, now, now, Iteration{}};
}

void ScriptEyes::read(const ScriptLine& line, Instant now) {
  if (line.saved) {
    saved_ = line.iteration;
    return;
  }
  if (line.iteration == memory_.iteration) return;
  durations_.push_back(line.elapsed_ms);
  wire::add(losses_, {line.iteration, kLoss, std::nullopt, std::nullopt});
  memory_.iteration = line.iteration;
  memory_.progressed = now;
  late_ = !live_;
}

wire::Beat ScriptEyes::beat(Instant now) {
  wire::Beat beat;
  const bool moved = memory_.iteration.value != 0;
  beat.attempt = Attempt(1);
  beat.phase = moved ? wire::Phase::Iteration : wire::Phase::Startup;
  beat.phase_age_ms = ms(now - memory_.began);
  beat.ranks = policy_.scheduler.nodes.front().nodes * policy_.train.ranks_per_node;
  beat.reporting = moved ? beat.ranks : 0;
  beat.iteration_min = beat.iteration_max = memory_.iteration;
  beat.total = policy_.train.finished.iteration.value_or(moved ? total_ : 0);
  if (moved) beat.loss = kLoss;
  if (!durations_.empty()) {
    beat.iteration_ms.count = durations_.size();
    beat.iteration_ms.p50 = beat.iteration_ms.p99 = beat.iteration_ms.max = durations_.back();
  }
  durations_.clear();
  beat.losses = std::exchange(losses_, {});
  beat.checkpoint = saved_;
  beat.progress_age_ms = beat.newest_progress_age_ms = ms(now - memory_.progressed);
  return beat;
}

std::vector<core::Input> ScriptEyes::look(const std::vector<ScriptLine>& lines, Instant now,
                                          bool blind, bool at_once) {
  while (!blind && taken_ < lines.size() && lines[taken_].seen_from <= now)
    read(lines[taken_++], now);
  if (!live_ && !late_) return {};
  if (!live_ && broken_ == Guard::Stillness) return {};
  watch::DigestFolder once(memory_.generation, watch::digest_interval(policy_.hang.floor));
  watch::DigestFolder& folder = folder_ ? *folder_ : once;
  auto digest = folder.beat(beat(now), now);
  if (!digest && (at_once || late_)) digest = folder.flush();
  late_ = false;
  if (!digest) return {};
  core::Cursor cursor;
  cursor.path = kCursor;
  cursor.line = taken_;
  cursor.parser_state = to_json_text(memory_);
  std::vector<core::Input> inputs;
  inputs.push_back({policy_.run, *std::move(digest), {std::move(cursor)}});
  return inputs;
}

}  // namespace stoker::sim
