// Lines, event lines, progress and page of one rank.
#include "worker/agent/rank/rank_slot.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/os/random.hpp"
#include "diagnose/parse/phase_line.hpp"
#include "wire/resume_audit.hpp"

namespace stoker::agent {
namespace {
constexpr std::size_t kTailBytes = 2048;
constexpr std::size_t kEventLineLimit = 256u << 10;
constexpr int kEventsPerAttempt = 100000;  // of a rank; a hostile training cannot flood the journal

// What a training may say; the rest is the agent's own to tell.
bool may_tell(const wire::AgentBody& body) {
  return std::holds_alternative<wire::ResumeAudit>(body) ||
         std::holds_alternative<wire::CheckpointSaved>(body) ||
         std::holds_alternative<wire::SaveFailed>(body) ||
         std::holds_alternative<wire::DamagedCheckpoint>(body) ||
         std::holds_alternative<wire::NumbersDiffer>(body) ||
         std::holds_alternative<wire::Notice>(body);
}

// A duration or a size that cannot be would be printed with all its digits.
wire::AgentBody bounded(wire::AgentBody body) {
  constexpr double kLongest = 366.0 * 86400;
  constexpr std::uint64_t kLargest = 1ull << 60;
  if (auto* saved = std::get_if<wire::CheckpointSaved>(&body)) {
    saved->seconds = saved->seconds >= 0 ? std::min(saved->seconds, kLongest) : 0;
    saved->bytes = std::min(saved->bytes, kLargest);
  }
  return body;
}

// Whole lines: half a secret at the beginning would not be known as one.
std::string end_of(const std::string& tail) {
  return tail.substr(tail.find('\n', tail.size() - kTailBytes) + 1);
}
}  // namespace

RankSlot::RankSlot(NodeName node, Rank r, Attempt attempt, const diagnose::ProgressReader& progress,
                   SlotSinks sinks)
    : rank(r),
      node_(std::move(node)),
      attempt_(attempt),
      progress_(progress),
      sinks_(std::move(sinks)),
      prefix_(fmt::format("[{}:{}] ", node_.text, r.value)),
      event_word_(os::random_hex(16)),
      hidden_{HiddenWord(event_word_), HiddenWord(event_word_)},
      started_(monotonic_now()),
      progress_at_(started_),
      phase_since_(started_) {
  sample_.rank = r;
}

void RankSlot::feed(int stream, std::string_view bytes, Instant now) {
  hidden_[stream == 1 ? 0 : 1].feed(bytes, sinks_.raw);
  if (stream == 1) {
    buffering_.feed(bytes, now);
    if (buffering_.block_buffered() && !told_buffering_) {
      told_buffering_ = true;
      sinks_.event(wire::Notice{
          node_, fmt::format("output of rank {} is block-buffered: its lines arrive late; "
                             "for Python set PYTHONUNBUFFERED=1, for others use stdbuf -oL",
                             rank.value)});
    }
  }
  splitters_[stream == 1 ? 0 : 1].feed(bytes,
                                       [&](std::string_view line) { on_line(line, stream, now); });
}

void RankSlot::finish(Instant now) {
  for (HiddenWord& hidden : hidden_) hidden.finish(sinks_.raw);
  for (int i = 0; i < 2; ++i)
    splitters_[i].finish([&](std::string_view line) { on_line(line, i + 1, now); });
}

void RankSlot::on_line(std::string_view line, int stream, Instant now) {
  std::string text;
  text.reserve(prefix_.size() + line.size() + 1);
  text.append(prefix_);
  const auto append = [&text](std::string_view part) { text.append(part); };
  HiddenWord hidden(event_word_);
  hidden.feed(line, append);
  hidden.finish(append);
  text.push_back('\n');
  sinks_.merged(text);
  text.pop_back();
  tail_.append(text, prefix_.size(), kTailBytes / 2).push_back('\n');
  if (tail_.size() > 4 * kTailBytes) tail_ = end_of(tail_);
  if (const auto json = event_in(line); json && stream == 1) return on_event_line(*json);
  if (sample_.page) return;
  if (const auto progress = progress_.read(line)) return note_progress(*progress, now);
  if (diagnose::parse_validation_line(line)) {  // one of many data sets: tr11 had 29
    progress_at_ = now;
    return;
  }
  const auto phase = diagnose::parse_phase_line(line);
  if (!phase) return;
  if (phase->mark == diagnose::PhaseMark::LoadEnds && phase->iteration)
    note_loaded(Iteration(*phase->iteration));
  if (phase->mark == diagnose::PhaseMark::SaveEnds)  // without a number: of the newest iteration
    note_checkpoint(phase->iteration ? Iteration(*phase->iteration) : sample_.iteration);
  note_phase(phase->mark, now);
}

// Lightning's line is on stderr and its bar on stdout, which may be read first.
void RankSlot::note_loaded(Iteration iteration) {
  if (sample_.reported) {
    if (loaded_ || iteration != sample_.iteration || sample_.completed != 1) return;
    sample_.reported = false;
    sample_.completed = 0;
  }
  loaded_ = iteration;
}

void RankSlot::note_checkpoint(Iteration iteration) {
  if (!sample_.page) sample_.checkpoint = std::max(sample_.checkpoint, iteration);
}

void RankSlot::note_last_checkpoint(Iteration iteration) {
  note_checkpoint(iteration);
  if (!sample_.page && sample_.reported) sample_.iteration = std::max(sample_.iteration, iteration);
}

void RankSlot::note_phase(diagnose::PhaseMark mark, Instant now) {
  using diagnose::PhaseMark;
  const bool iterated = sample_.reported;
  wire::Phase phase = iterated ? wire::Phase::Iteration : wire::Phase::Startup;
  switch (mark) {
    case PhaseMark::LoadBegins:
      if (iterated) return;
      phase = wire::Phase::Load;
      break;
    case PhaseMark::EvaluationBegins: phase = wire::Phase::Evaluation; break;
    case PhaseMark::SaveBegins: phase = wire::Phase::Checkpoint; break;
    case PhaseMark::EvaluationEnds:
    case PhaseMark::SaveEnds: phase = wire::Phase::Iteration; break;  // perhaps another rank's
    case PhaseMark::LoadEnds: break;
    case PhaseMark::Leaves: return;  // what follows has no limit of its own
  }
  if (phase != sample_.phase) phase_since_ = now;
  sample_.phase = phase;
  progress_at_ = now;
}

// The page is ahead of the sample, which is taken now and then.
Iteration RankSlot::reached() const {
  const auto beat = page_ ? page_->read() : std::nullopt;
  const bool ours = beat && beat->attempt == attempt_;
  return ours ? std::max({sample_.iteration, beat->iteration, beat->checkpoint})
              : sample_.iteration;
}

// Output may hold any text, such a line too: only who knows our environment knows the word.
std::optional<std::string_view> RankSlot::event_in(std::string_view line) const {
  for (const std::string_view part :
       {std::string_view(wire::kEventLinePrefix), std::string_view(event_word_)}) {
    if (!line.starts_with(part)) return std::nullopt;
    line.remove_prefix(part.size());
  }
  if (!line.starts_with(' ')) return std::nullopt;
  return line.substr(1);
}

// What a training says is bounded all the same.
void RankSlot::on_event_line(std::string_view json) {
  if (++events_told_ > kEventsPerAttempt) return;
  const auto body =
      from_json_text<wire::AgentBody>(json, fmt::format("event line of rank {}", rank.value),
                                      {.bytes = kEventLineLimit, .depth = 16});
  if (!body) {
    sinks_.event(wire::Notice{node_, body.error().message().substr(0, 512)});
    return;
  }
  const auto* saved = std::get_if<wire::CheckpointSaved>(&*body);
  if (saved != nullptr && saved->iteration > reached())
    sinks_.event(wire::Notice{
        node_, fmt::format("event line of rank {} refused: it names a checkpoint of iteration "
                           "{}, the rank has reached {}",
                           rank.value, saved->iteration.value, reached().value)});
  else if (may_tell(*body))
    sinks_.event(bounded(*body));
  else
    sinks_.event(wire::Notice{
        node_, fmt::format("event line of rank {} refused: not a training's to tell", rank.value)});
}

void RankSlot::note_progress(const diagnose::IterationMetrics& p, Instant now) {
  const Iteration iteration(*p.iteration);
  // Not an iteration: DeepSpeed shows its learning rate before the first one, Lightning's bar the
  // batch that it resumes from.
  const bool resumes = !sample_.reported && loaded_ == iteration;
  if (resumes || (iteration.value == 0 && !p.loss)) {
    progress_at_ = now;
    return;
  }
  if (!sample_.reported || sample_.phase != wire::Phase::Iteration) phase_since_ = now;
  if (iteration > sample_.iteration || !sample_.reported) {
    const Iteration before = sample_.reported                  ? sample_.iteration
                             : loaded_ && *loaded_ < iteration ? *loaded_
                                                               : Iteration(iteration.value - 1);
    const std::uint64_t step = iteration.value - before.value;
    const double guess = to_seconds(now - progress_at_) * 1000 / static_cast<double>(step);
    sample_.completed += step;
    sample_.iteration_ms = p.elapsed_ms.value_or(sample_.reported ? guess : 0);
  }
  if (iteration != sample_.iteration)
    wire::add(sample_.losses, {iteration, p.loss, p.grad_norm, p.loss_scale, p.skipped.value_or(0),
                               p.nan.value_or(0)});
  sample_.reported = true;
  sample_.phase = wire::Phase::Iteration;
  progress_at_ = now;
  sample_.iteration = iteration;
  sample_.total = p.total.value_or(sample_.total);
  sample_.consumed_samples = p.consumed_samples.value_or(sample_.consumed_samples);
  sample_.consumed_tokens = p.consumed_tokens.value_or(sample_.consumed_tokens);
  sample_.loss = p.loss;
  sample_.learning_rate = p.lr.value_or(sample_.learning_rate);
  sample_.gradient_norm = p.grad_norm.value_or(sample_.gradient_norm);
  sample_.tflops = p.tflops.value_or(sample_.tflops);
}

// A page that had a loss and has none after an iteration means one that was not a number.
void RankSlot::note_losses(const wire::Heartbeat& beat) {
  wire::StepTold step{beat.iteration, beat.loss, beat.gradient_norm, std::nullopt, 0, 0};
  losses_told_ = losses_told_ || beat.loss.has_value();
  if (!beat.loss && losses_told_) step.not_finite = 1;
  if (beat.norms_at > norms_told_)
    step.groups.assign(beat.group_norms.begin(), beat.group_norms.end());
  norms_told_ = std::max(norms_told_, beat.norms_at);
  wire::add(sample_.losses, step);
}

bool RankSlot::look(Instant now) {
  if (!page_) return false;
  const auto beat = page_->read();
  if (!beat || beat->attempt != attempt_) return false;
  const bool edge = !sample_.page || sample_.phase != beat->phase ||
                    sample_.checkpoint != beat->checkpoint ||
                    sample_.saves_answered != beat->saves_answered;
  if (beat->iteration > sample_.iteration && (sample_.page || beat->phase_steps > 0)) {
    const std::uint64_t step = beat->iteration.value - sample_.iteration.value;
    // The first ones that are seen: a training that resumed has not done those before it.
    const bool first = sample_.iteration.value == 0 && beat->phase_steps > 0;
    sample_.completed += first ? std::min(step, beat->phase_steps) : step;
    note_losses(*beat);
  }
  sample_.reported = sample_.page = true;
  sample_.waiting = page_->in_collective();
  sample_.phase = beat->phase;
  phase_since_ = std::min(beat->phase_since, now);
  progress_at_ = std::min(beat->progress_at, now);
  sample_.iteration = beat->iteration;
  sample_.checkpoint = beat->checkpoint;
  sample_.total = beat->total;
  sample_.consumed_samples = beat->consumed_samples;
  sample_.consumed_tokens = beat->consumed_tokens;
  sample_.saves_answered = beat->saves_answered;
  sample_.loss = beat->loss;
  sample_.learning_rate = beat->learning_rate;
  sample_.gradient_norm = beat->gradient_norm;
  sample_.tflops = beat->tflops;
  sample_.iteration_ms = beat->iteration_seconds * 1000;
  sample_.compute_ms = static_cast<double>(std::max<std::int64_t>(0, beat->compute.count())) / 1e6;
  return edge;
}

RankSample RankSlot::take_sample(Instant now) {
  const auto ms = [](Duration d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::max(d, Duration{})).count();
  };
  sample_.phase_age_ms = ms(now - phase_since_);
  sample_.progress_age_ms = ms(now - progress_at_);
  RankSample taken = sample_;
  sample_.completed = 0;
  sample_.losses = {};
  return taken;
}

std::string RankSlot::last_lines() const {
  return tail_.size() <= kTailBytes ? tail_ : end_of(tail_);
}

}  // namespace stoker::agent
