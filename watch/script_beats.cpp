// Values to beats, beats to digests.
#include "watch/script_beats.hpp"

#include <algorithm>
#include <utility>

namespace stoker::watch {
namespace {

std::string key_of(const RunName& run) {
  return "script:" + run.text;
}

std::int64_t milliseconds(Duration d) {
  return std::max<std::int64_t>(0,
                                std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

wire::Quantiles quantiles_of(std::vector<double> values) {
  wire::Quantiles q;
  if (values.empty()) return q;
  std::sort(values.begin(), values.end());
  q.count = values.size();
  q.p50 = values[(values.size() - 1) / 2];
  q.p99 = values[(values.size() * 99 + 99) / 100 - 1];
  q.max = values.back();
  return q;
}

}  // namespace

ScriptBeats::ScriptBeats(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors)
    : run_(policy.run),
      ranks_(policy.scheduler.nodes.front().nodes * policy.train.ranks_per_node),
      interval_(digest_interval(policy.hang.floor)),
      ends_at_(policy.train.finished.iteration) {
  for (const core::Cursor& cursor : cursors)
    if (cursor.path == key_of(run_))
      if (const auto memory = from_json_text<Memory>(cursor.parser_state, cursor.path))
        memory_ = *memory;
}

bool ScriptBeats::set_generation(Generation live, Instant now, WallTime wall) {
  live_ = live.value != 0;
  if (!live_ || (folder_ && memory_.generation == live)) return false;
  folder_.emplace(live, interval_);
  late_ = false;
  durations_.clear();
  losses_ = {};
  iterated_at_.reset();
  last_ = {};
  if (memory_.generation == live) {  // a daemon before this one knew it already
    began_ = now - std::max<Duration>(0s, wall - memory_.began);
    progressed_ = now - std::max<Duration>(0s, wall - memory_.progressed);
  } else {
    memory_ = Memory{live, wall, wall, Iteration{}};
    began_ = progressed_ = now;
  }
  return true;
}

void ScriptBeats::progressed(Instant now, WallTime wall) {
  progressed_ = now;
  memory_.progressed = wall;
}

void ScriptBeats::completed(const ScriptIteration& line, Instant now, WallTime wall) {
  if (line.iteration == memory_.iteration) return;
  if (line.elapsed_ms)
    durations_.push_back(*line.elapsed_ms);
  else if (iterated_at_ && now > *iterated_at_)
    durations_.push_back(static_cast<double>(milliseconds(now - *iterated_at_)));
  wire::add(losses_, {line.iteration, line.loss, line.gradient_norm, line.loss_scale, line.skipped,
                      line.nan});
  memory_.iteration = line.iteration;
  iterated_at_ = now;
  last_ = line;
  late_ = !live_ && memory_.generation.value != 0;  // else no job of ours was ever seen
  progressed(now, wall);
}

wire::Beat ScriptBeats::beat(Instant now) {
  wire::Beat beat;
  const bool moved = memory_.iteration.value != 0;
  beat.attempt = Attempt(1);
  beat.phase = moved ? wire::Phase::Iteration : wire::Phase::Startup;
  beat.phase_age_ms = milliseconds(now - began_);
  beat.ranks = ranks_;
  beat.reporting = moved ? ranks_ : 0;
  beat.iteration_min = beat.iteration_max = memory_.iteration;
  beat.total = ends_at_.value_or(last_.total.value_or(0));
  beat.consumed_samples = last_.samples.value_or(0);
  beat.consumed_tokens = last_.tokens.value_or(0);
  beat.loss = last_.loss;
  beat.learning_rate = last_.learning_rate.value_or(0);
  beat.gradient_norm = last_.gradient_norm.value_or(0);
  beat.tflops = last_.tflops.value_or(0);
  beat.iteration_ms = quantiles_of(std::move(durations_));
  durations_.clear();
  beat.losses = std::exchange(losses_, {});
  beat.checkpoint = saved_;
  beat.progress_age_ms = beat.newest_progress_age_ms = milliseconds(now - progressed_);
  return beat;
}

std::optional<core::Digest> ScriptBeats::poll(Instant now, bool at_once) {
  if (!live_ && !late_) return std::nullopt;
  DigestFolder once(memory_.generation, interval_);  // this daemon began after the end of the job
  DigestFolder& folder = folder_ ? *folder_ : once;
  auto digest = folder.beat(beat(now), now);
  if (!digest && (at_once || late_)) digest = folder.flush();
  late_ = false;
  return digest;
}

core::Cursor ScriptBeats::cursor() const {
  core::Cursor cursor;
  cursor.path = key_of(run_);
  cursor.parser_state = to_json_text(memory_);
  return cursor;
}

}  // namespace stoker::watch
