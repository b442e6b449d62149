#include "worker/train/loop/trainer.hpp"

#include <cmath>
#include <fmt/format.h>

#include "kernels/global_norm.hpp"
#include "recipe/flops.hpp"
#include "recipe/plan.hpp"
#include "recipe/sequence_plan.hpp"
#include "worker/train/executor/executor.hpp"
#include "worker/train/run/say.hpp"
#include "worker/train/state/zero.hpp"

namespace stoker::train {
namespace {

recipe::BatchPlan plan_of(const recipe::TrainConfig& config) {
  auto plan = recipe::BatchPlan::make(config.batch);
  STOKER_CHECK(plan.has_value(), "the batch was checked with the configuration");
  return std::move(*plan);
}

}  // namespace

Trainer::Trainer(TrainerParts parts, Position position, bool saved)
    : p_(parts),
      position_(position),
      plan_(plan_of(parts.config)),
      total_(plan_.train_iterations(parts.config.train.samples)),
      ahead_(parts.data),
      sums_(parts.comm, parts.state, parts.config.train.deadline, parts.config.parallel.sequence),
      replay_(parts.comm, parts.model, parts.state, parts.config.train.deadline) {
  if (saved) last_saved_ = position.iteration;
  if (p_.config.checkpoint.asynchronous) staging_.prepare(p_.state, p_.comm.mesh(), p_.comm.rank());
}

Result<double> Trainer::compute(Step& step) {
  const BatchCut cut = cut_of(step);
  const Mesh& mesh = p_.comm.mesh();
  const std::uint32_t rank = mesh.data_rank(p_.comm.rank());
  const double weight = static_cast<double>(step.micro) / static_cast<double>(step.global);
  STOKER_TRY(schedule, p_.pipeline.training(static_cast<std::uint32_t>(cut.micro_steps())));
  if (step.replays) replay_.watch(schedule->ranks[mesh.pipe_rank(p_.comm.rank())]);
  p_.state.zero_gradients();
  if (fetches_) read_ahead(step);
  ExecutorHooks hooks;
  hooks.fetch = [&](std::uint32_t m) {
    fetches_ = true;
    return fetch(p_.data, cut.samples(m, rank), step.sequence, &ahead_);
  };
  hooks.before_op = [&](const recipe::PipelineOp& op) { p_.trace.op_begins(op); };
  hooks.after_op = [&] {
    p_.trace.op_ends();
    p_.pulse.progress();
    replay_.after_op();
  };
  hooks.reduce = [&](std::uint32_t stage) { return sums_.add_stage(stage); };
  hooks.reduce_tied = [&] { return sums_.add_tied(); };
  hooks.loss = [&](std::uint32_t m, double mean) { replay_.loss(m, mean); };
  return run_schedule({*schedule, p_.comm, p_.config.train.deadline, weight}, p_.model, hooks);
}

// One sum for everything that all ranks must agree on. Each number counts once: the loss from one
// tensor rank of each replica's last stage, the norm from one replica.
Status Trainer::agree(Step& step) {
  const Mesh& mesh = p_.comm.mesh();
  const bool first = p_.comm.rank() == 0;
  LeaveReason reason = LeaveReason::None;
  if (first)
    reason = p_.leave.look(p_.pulse, position_.iteration.next(),
                           position_.consumed_samples + step.global, leaving());
  const Trace::Clock clock = first ? Trace::clock() : Trace::Clock{};
  std::array<double, 8> sums{mesh.tensor_rank(p_.comm.rank()) == 0 ? step.loss : 0.0,
                             signal_seen() ? 1.0 : 0.0,
                             first ? static_cast<double>(reason) : 0.0,
                             first && p_.pulse.save_wanted() ? 1.0 : 0.0,
                             pending_ && pending_->written() ? 1.0 : 0.0,
                             sums_.share_of_norm(),
                             clock.seconds,
                             clock.boot};
  STOKER_TRY_STATUS(p_.comm.all_reduce(Axis::World, Reduce::Sum,
                                       {sums.data(), sums.size(), Element::F64},
                                       {"step", p_.config.train.deadline}));
  p_.trace.meet({sums[6], sums[7]});
  step.loss = sums[0];
  step.leave = stronger(static_cast<LeaveReason>(static_cast<int>(sums[2])),
                        sums[1] > 0 ? LeaveReason::Signal : LeaveReason::None);
  step.save_wanted = sums[3] > 0;
  step.shards_written = sums[4] >= static_cast<double>(mesh.world());
  step.norm = std::sqrt(sums[5]);
  step.finite = std::isfinite(step.norm) && std::isfinite(step.loss);
  return ok();
}

Status Trainer::update(const Step& step) {
  if (!step.finite) {
    position_.idle_samples += step.global;
    ++position_.skipped_steps;
  } else {
    const auto& o = p_.config.optimizer;
    const kernels::AdamwStep adamw{learning_rate_at(p_.config, position_),
                                   o.beta1,
                                   o.beta2,
                                   o.eps,
                                   o.weight_decay,
                                   kernels::clip_scale(step.norm, p_.config.train.clip),
                                   p_.state.steps + 1};
    {
      const TraceSpan span(p_.trace, TraceRow::Optimizer, "update");
      p_.state.update(adamw, p_.state.owned());
    }
    ++p_.state.steps;
    STOKER_TRY_STATUS(gather_parameters(p_.comm, p_.state, p_.config.train.deadline));
  }
  position_.optimizer_steps = p_.state.steps;
  position_.iteration = position_.iteration.next();
  position_.consumed_samples += step.global;
  position_.consumed_tokens += step.global * step.sequence;
  return ok();
}

// A step whose replay came out differently is made again, once, where repairs are allowed.
Status Trainer::gradients(Step& step) {
  for (const bool again : {false, true}) {
    if (step.replays) STOKER_TRY_STATUS(replay(step));
    const Instant began = monotonic_now();
    const Duration calls = p_.pulse.in_calls();
    STOKER_TRY(loss, compute(step));
    STOKER_TRY_STATUS(p_.state.device().status());
    step.loss = loss;
    step.compute = monotonic_now() - began - (p_.pulse.in_calls() - calls);  // without waits
    STOKER_TRY_STATUS(finish_snapshot());
    STOKER_TRY_STATUS(agree(step));
    if (!step.replays) return ok();
    STOKER_TRY(good, judge_step(again));
    if (good) return ok();
  }
  return ok();
}

Result<Trainer::Step> Trainer::step() {
  const Instant began = monotonic_now();
  const Iteration next = position_.iteration.next();
  const auto& check = p_.config.check;
  Step step;
  step.global = plan_.global_batch(position_.consumed_samples);
  step.micro = plan_.micro_batch(position_.consumed_samples);
  step.sequence = recipe::sequence_at(p_.config, next);
  step.replays = check.replay_every > 0 && next.value % check.replay_every == 0;
  STOKER_TRY_STATUS(gradients(step));
  const Status noted = note_samples(step);  // this log is worth less than the training
  if (!noted && !samples_log_failed_) complain("warning: " + noted.error().message());
  samples_log_failed_ = !noted;
  STOKER_TRY_STATUS(update(step));
  if (p_.config.log.norms && logs(next)) {
    STOKER_TRY(norms,
               measure_norms(p_.comm, p_.state, p_.config.model.layers, p_.config.train.deadline));
    norms_ = std::move(norms);
  }
  if (check.replicas_every > 0 && next.value % check.replicas_every == 0)
    STOKER_TRY_STATUS(compare());
  step.whole = last_iteration_ = monotonic_now() - began;
  return step;
}

bool Trainer::logs(Iteration iteration) const {
  return iteration.value % p_.config.log.every == 0 || iteration.value == total_;
}

void Trainer::tell(const Step& step) {
  const auto& c = p_.config;
  recipe::FlopsShape shape = recipe::flops_shape(c.model, c.train.recompute);
  shape.sequence = step.sequence;
  const double tflops = recipe::tflops(recipe::FlopsConvention::LegacyHardware, shape, step.global,
                                       step.whole, p_.environment.world);
  p_.pulse.update([&](wire::Heartbeat& beat) {
    beat.iteration = position_.iteration;
    beat.total = total_;
    beat.consumed_samples = position_.consumed_samples;
    beat.consumed_tokens = position_.consumed_tokens;
    beat.loss = step.finite ? std::optional(step.loss) : std::nullopt;
    beat.learning_rate = learning_rate_at(c, position_);
    beat.iteration_seconds = to_seconds(step.whole);
    beat.tflops = tflops;
    beat.gradient_norm = step.norm;
    beat.compute = step.compute;
    if (norms_ && p_.environment.first() && logs(position_.iteration)) note_norms(beat);
  });
  ++window_.iterations;
  window_.samples += step.global;
  window_.seconds += to_seconds(step.whole);
  (step.finite ? window_.advanced : window_.skipped) += 1;
  if (step.finite) window_.loss += step.loss;
  if (!logs(position_.iteration)) return;
  if (p_.environment.last()) tell_window(step, tflops);
  window_ = {};
}

void Trainer::tell_window(const Step& step, double tflops) {
  std::optional<double> loss;  // a window of skipped steps has none
  if (window_.advanced > 0) loss = window_.loss / static_cast<double>(window_.advanced);
  const double seconds = window_.seconds / static_cast<double>(window_.iterations);
  const double rate = static_cast<double>(window_.samples) / window_.seconds;
  const double learning_rate = learning_rate_at(p_.config, position_);
  IterationLine line{position_.iteration,
                     total_,
                     position_.consumed_samples,
                     position_.consumed_tokens,
                     seconds,
                     learning_rate,
                     step.global,
                     loss,
                     step.norm,
                     window_.skipped,
                     window_.skipped,
                     rate,
                     tflops};
  if (norms_) line.zeros = norms_->zeros, line.parameter_norm = norms_->parameters;
  if (p_.config.train.curriculum) line.sequence = step.sequence;
  say(format_iteration_line(line));
  if (norms_) tell_norms();
  if (line.sequence)
    plot(position_.iteration, {{"curriculum_seqlen", static_cast<double>(step.sequence)}});
  if (loss) plot(position_.iteration, {{"lm-loss-training/lm loss", *loss}});
  plot(position_.iteration,
       {{"learning-rate/learning-rate", learning_rate},
        {"batch-size/batch-size", static_cast<double>(step.global)},
        {"grad-norm/grad-norm", step.norm},
        {"iteration-time/iteration-time", seconds},
        {"iteration-time/samples per second", rate},
        {"iteration-time/TFLOPs per gpu (estimated)", tflops},
        {"steps-vs-samples/y=steps,x=samples", static_cast<double>(position_.consumed_samples)}});
}

void Trainer::note_norms(wire::Heartbeat& beat) const {
  beat.norms_at = position_.iteration;
  beat.group_norms.clear();
  for (const Norms::Group& group : norms_->groups)
    beat.group_norms.push_back(static_cast<float>(group.gradients));
}

void Trainer::tell_norms() {
  say(format_norms_line(position_.iteration, *norms_));
  plot(position_.iteration,
       {{"num-zeros/num-zeros", norms_->zeros}, {"params-norm/params-norm", norms_->parameters}});
  for (const Norms::Group& group : norms_->groups)
    plot(position_.iteration, {{"grad-norm/" + group.name, group.gradients}});
}

// Plots are worth less than the training: a failure is reported once, then they are left out.
void Trainer::plot(Iteration step, const std::vector<Scalar>& scalars) {
  if (!board_) return;
  if (Status added = board_->add(step, scalars); !added) {
    complain("warning: no more TensorBoard points: " + added.error().message());
    board_.reset();
  }
}

void Trainer::open_logs() {
  if (p_.environment.first()) {
    auto log = SamplesLog::open(p_.config.checkpoint.samples_log);
    if (log)
      samples_log_.emplace(std::move(*log));
    else
      complain("warning: " + log.error().message());
  }
  if (p_.environment.last() && p_.config.log.tensorboard) {
    auto board = Tensorboard::open(*p_.config.log.tensorboard, position_.iteration);
    if (board)
      board_.emplace(std::move(*board));
    else
      complain("warning: " + board.error().message());
  }
}

Duration Trainer::leaving() const {
  return last_iteration_ + 2 * last_save_ + 100ms;
}

Status Trainer::evaluate() {
  const TraceSpan span(p_.trace, TraceRow::Evaluation, "evaluation");
  p_.pulse.phase(wire::Phase::Evaluation);
  // The batch of the run's end, also during the ramp-up: the same samples at every validation.
  const recipe::BatchPhase last = plan_.phases(p_.config.train.samples).back();
  const std::uint64_t global = last.global, micro = last.micro;
  const std::uint64_t whole = p_.config.model.sequence;  // also while a curriculum trains on less
  const std::uint32_t rank = p_.comm.mesh().data_rank(p_.comm.rank());
  double loss = 0;
  std::uint64_t batches = 0;
  for (std::uint64_t i = 0; i < p_.config.evaluate.iterations; ++i) {
    const BatchCut cut{i * global, global, micro, p_.comm.mesh().dp};
    STOKER_TRY(schedule, p_.pipeline.evaluation(static_cast<std::uint32_t>(cut.micro_steps())));
    STOKER_TRY(sum, run_evaluation({*schedule, p_.comm, p_.config.train.deadline, 1.0}, p_.model,
                                   {[&](std::uint32_t m) {
                                      return fetch(*p_.validation, cut.samples(m, rank), whole);
                                    },
                                    [&] { p_.pulse.progress(); },
                                    {},
                                    {}}));
    loss += sum;
    batches += cut.micro_steps();
  }
  loss /= static_cast<double>(batches) * p_.comm.mesh().dp;
  if (p_.comm.mesh().tensor_rank(p_.comm.rank()) != 0) loss = 0;
  STOKER_TRY_STATUS(p_.comm.all_reduce(Axis::World, Reduce::Sum, {&loss, 1, Element::F64},
                                       {"evaluation", p_.config.train.deadline}));
  if (p_.environment.last()) {
    say(format_validation_lines(position_.iteration, loss));
    plot(position_.iteration, {{"lm-loss-validation/valid/lm loss validation", loss}});
  }
  p_.pulse.phase(wire::Phase::Iteration);
  return ok();
}

// What follows an iteration: regular save, evaluation, leaving.
Result<bool> Trainer::after(const Step& step) {
  const bool end = position_.iteration.value >= total_;
  const LeavePlan leaving = end && step.leave != LeaveReason::KillNow
                                ? LeavePlan{true, ExitCode::Finished}
                                : plan_of(step.leave);
  const bool leaves = end || step.leave != LeaveReason::None;
  const auto& evaluation = p_.config.evaluate;
  const bool evaluates = p_.validation != nullptr && evaluation.every > 0 &&
                         position_.iteration.value % evaluation.every == 0 &&
                         step.leave != LeaveReason::KillNow;
  const bool saves = recipe::save_due(p_.config.checkpoint.save, position_.iteration) ||
                     step.save_wanted || (evaluates && evaluation.save_before) ||
                     (leaves && leaving.save);
  bool saved = true;
  if (pending_ && (step.shards_written || saves || leaves)) {
    STOKER_TRY(ended, finish_save());
    saved = ended;
  }
  if (saves && step.leave != LeaveReason::KillNow) {
    const bool must_be_now = leaves || step.save_wanted || evaluates;
    STOKER_TRY(done, save(p_.config.checkpoint.asynchronous && !must_be_now));
    saved = done;
  }
  if (!leaves) begin_snapshot();
  if (evaluates) STOKER_TRY_STATUS(evaluate());
  if (!leaves) return false;
  if (leaving.code != ExitCode::Finished && p_.environment.first())
    say(leave_line(step.leave, p_.leave, position_.iteration));
  code_ = leaving.code;
  if (leaving.save && !saved) code_ = disk_full_ ? ExitCode::DiskFull : ExitCode::Failed;
  return true;
}

void Trainer::plan_trace() {
  if (!p_.trace.plan(position_.iteration.next(), Iteration(total_)) && p_.environment.first())
    complain(fmt::format("warning: no trace: this start makes iterations {} to {} only",
                         position_.iteration.value + 1, total_));
}

// The save that is being written beside the training, up to now: a piece for each iteration.
void Trainer::trace_pending() {
  if (!beside_since_) return;
  p_.trace.add(TraceRow::Background, "writing", *beside_since_);
  beside_since_ = monotonic_now();
}

ExitCode Trainer::run() {
  open_logs();
  plan_trace();
  p_.pulse.phase(wire::Phase::Iteration);
  while (position_.iteration.value < total_) {
    p_.trace.begin(position_.iteration.next());
    auto done = step();
    if (!done) return ended(done.error());
    tell(*done);
    auto leaves = after(*done);
    if (!leaves) return ended(leaves.error());
    trace_pending();
    p_.trace.end(position_.iteration);
    if (*leaves) break;
  }
  p_.pulse.phase(wire::Phase::Shutdown);
  return code_;
}

}  // namespace stoker::train
