// Lines to beats.
#include "daemon/logs/script_progress.hpp"

#include <algorithm>
#include <utility>

#include "diagnose/parse/phase_line.hpp"

namespace stoker::daemon {
namespace {

constexpr Duration kLeaderSilent = 5min;  // then another log may lead

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

ScriptProgress::ScriptProgress(const core::RunPolicy& policy,
                               const std::vector<core::Cursor>& cursors)
    : run_(policy.run),
      ranks_(policy.scheduler.nodes.front().nodes * policy.train.ranks_per_node),
      interval_(watch::digest_interval(policy.hang.floor)),
      ends_at_(policy.train.finished.iteration) {
  if (auto reader = diagnose::ProgressReader::make(policy.watch.progress))
    reader_ = *std::move(reader);
  else
    error_ = reader.error().message();
  for (const core::Cursor& cursor : cursors)
    if (cursor.path == key_of(run_))
      if (const auto memory = from_json_text<Memory>(cursor.parser_state, cursor.path))
        memory_ = *memory;
}

void ScriptProgress::set_generation(Generation live, Instant now, WallTime wall) {
  live_ = live.value != 0;
  if (!live_) return;
  if (folder_ && memory_.generation == live) return;
  folder_.emplace(live, interval_);
  late_ = false;
  durations_.clear();
  losses_ = {};
  iterated_at_.reset();
  leader_.clear();
  last_ = {};
  if (memory_.generation == live) {  // a daemon before this one knew it already
    began_ = now - std::max<Duration>(0s, wall - memory_.began);
    progressed_ = now - std::max<Duration>(0s, wall - memory_.progressed);
    return;
  }
  memory_ = Memory{live, wall, wall, Iteration{}};
  began_ = progressed_ = now;
}

void ScriptProgress::progressed(Instant now, WallTime wall) {
  progressed_ = now;
  memory_.progressed = wall;
}

void ScriptProgress::line(const std::string& source, std::string_view text, Instant now,
                          WallTime wall) {
  const auto metrics = reader_.read(text);
  if (!metrics) {
    if (diagnose::parse_validation_line(text)) progressed(now, wall);
    const auto phase = diagnose::parse_phase_line(text);
    if (phase && phase->mark == diagnose::PhaseMark::SaveEnds && phase->iteration)
      saved_ = Iteration(*phase->iteration);
    return;
  }
  const bool leads = leader_.empty() || source == leader_ || now - leader_at_ > kLeaderSilent;
  if (!leads && *metrics->iteration <= memory_.iteration.value) return;
  leader_ = source;
  leader_at_ = now;
  if (*metrics->iteration == memory_.iteration.value) return;
  if (metrics->elapsed_ms)
    durations_.push_back(*metrics->elapsed_ms);
  else if (iterated_at_ && now > *iterated_at_)
    durations_.push_back(static_cast<double>(milliseconds(now - *iterated_at_)));
  wire::add(losses_, {Iteration(*metrics->iteration), metrics->loss, metrics->grad_norm,
                      metrics->loss_scale, metrics->skipped.value_or(0), metrics->nan.value_or(0)});
  memory_.iteration = Iteration(*metrics->iteration);
  iterated_at_ = now;
  last_ = *metrics;
  late_ = !live_ && memory_.generation.value != 0;  // else no job of ours was ever seen
  progressed(now, wall);
}

wire::Beat ScriptProgress::beat(Instant now) {
  wire::Beat beat;
  const bool moved = memory_.iteration.value != 0;
  beat.attempt = Attempt(1);
  beat.phase = moved ? wire::Phase::Iteration : wire::Phase::Startup;
  beat.phase_age_ms = milliseconds(now - began_);
  beat.ranks = ranks_;
  beat.reporting = moved ? ranks_ : 0;
  beat.iteration_min = beat.iteration_max = memory_.iteration;
  beat.total = ends_at_.value_or(last_.total.value_or(0));
  beat.consumed_samples = last_.consumed_samples.value_or(0);
  beat.consumed_tokens = last_.consumed_tokens.value_or(0);
  beat.loss = last_.loss;
  beat.learning_rate = last_.lr.value_or(0);
  beat.gradient_norm = last_.grad_norm.value_or(0);
  beat.tflops = last_.tflops.value_or(0);
  beat.iteration_ms = quantiles_of(std::move(durations_));
  durations_.clear();
  beat.losses = std::exchange(losses_, {});
  beat.checkpoint = saved_;
  beat.progress_age_ms = beat.newest_progress_age_ms = milliseconds(now - progressed_);
  return beat;
}

std::optional<core::Digest> ScriptProgress::poll(Instant now, bool at_once) {
  if (!live_ && !late_) return std::nullopt;
  if (!folder_) {  // this daemon began after the end of the job
    late_ = false;
    return watch::DigestFolder(memory_.generation, interval_).beat(beat(now), now);
  }
  auto digest = folder_->beat(beat(now), now);
  if (!digest && (at_once || late_)) digest = folder_->flush();
  late_ = false;
  return digest;
}

core::Cursor ScriptProgress::cursor() const {
  core::Cursor cursor;
  cursor.path = key_of(run_);
  cursor.parser_state = to_json_text(memory_);
  return cursor;
}

}  // namespace stoker::daemon
