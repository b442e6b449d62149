// The saving half of the trainer: what goes into the manifest, and what is reported about the
// outcome.
#include <fmt/format.h>

#include "worker/train/loop/trainer.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

constexpr Duration kSlowestSave = 20min;  // added to a step's deadline: disks are slower than peers

}  // namespace

wire::Manifest Trainer::manifest() const {
  wire::Manifest m;
  m.run = p_.environment.run;
  m.generation = p_.environment.generation;
  m.iteration = position_.iteration;
  m.consumed_samples = position_.consumed_samples;
  m.consumed_tokens = position_.consumed_tokens;
  m.learning_rate = learning_rate_at(p_.config, position_);
  m.build = "stoker " STOKER_VERSION;
  m.numerics = p_.facts.numerics;
  const Mesh& mesh = p_.comm.mesh();
  m.mesh = {{"tp", mesh.tp}, {"pp", mesh.pp}, {"dp", mesh.dp}};
  m.training = training_facts(p_.facts, position_);
  return m;
}

Result<bool> Trainer::save(bool later) {
  if (last_saved_ == position_.iteration) {
    p_.pulse.answer_saves();
    return true;
  }
  p_.pulse.phase(wire::Phase::Checkpoint);
  STOKER_TRY_STATUS(compare());  // what differs is never saved
  const std::string& directory = p_.config.checkpoint.directory;
  if (p_.environment.first())
    say(fmt::format("saving checkpoint at iteration {:7d} to {}", position_.iteration.value,
                    directory));
  const Instant began = monotonic_now();
  auto begun = PendingSave::begin(p_.comm, p_.state,
                                  {directory, manifest(), p_.environment.attempt,
                                   p_.config.train.deadline + kSlowestSave, p_.layout},
                                  later ? &staging_ : nullptr);
  if (!begun) return fail(begun.error());
  p_.trace.add(TraceRow::Save, "begin", began);
  pending_ = std::move(*begun);
  if (!later) {
    auto done = finish_save();
    if (done)
      p_.pulse.answer_saves();  // also a failed one: it was reported, and is not tried endlessly
    return done;
  }
  beside_since_ = monotonic_now();
  p_.pulse.phase(wire::Phase::Iteration);
  return true;
}

Result<bool> Trainer::finish_save() {
  trace_pending();
  beside_since_.reset();
  const TraceSpan span(p_.trace, TraceRow::Save, "finish");
  const std::unique_ptr<PendingSave> save = std::move(pending_);
  const Iteration iteration = save->iteration();
  p_.pulse.phase(wire::Phase::Checkpoint);
  auto report = save->finish(p_.comm);
  if (!report) return fail(report.error());
  disk_full_ = report->disk_full;
  if (report->saved) {
    last_saved_ = iteration;
    last_save_ = from_seconds(report->seconds);
    p_.pulse.saved(iteration);
  }
  const bool first = p_.environment.first();
  if (first && report->saved) {
    say(fmt::format("  successfully saved checkpoint at iteration {:7d} to {}", iteration.value,
                    p_.config.checkpoint.directory));
    tell_event(wire::CheckpointSaved{iteration, report->name, report->bytes, report->seconds});
  } else if (first) {
    complain(fmt::format("warning: the checkpoint of iteration {} was not saved: {}",
                         iteration.value, report->why));
    tell_event(wire::SaveFailed{iteration, report->why});
  }
  p_.pulse.phase(wire::Phase::Iteration);
  return report->saved;
}

// What differs between replicas is not looked for here: an attempt that ends with it ends the trust
// in its snapshots too.
void Trainer::begin_snapshot() {
  if (p_.snapshots == nullptr || !p_.snapshots->due(position_.iteration)) return;
  const TraceSpan span(p_.trace, TraceRow::Save, "snapshot");
  p_.snapshots->begin(manifest(), pending_ != nullptr);
}

// Before the sums that show that all ranks have done so.
Status Trainer::finish_snapshot() {
  if (p_.snapshots == nullptr || !p_.snapshots->pending()) return ok();
  const TraceSpan span(p_.trace, TraceRow::Save, "wait for the snapshot");
  const std::uint64_t number = p_.pulse.enter_collective("snapshot", p_.snapshots->bytes());
  const Instant began = monotonic_now();
  Status done = p_.snapshots->finish();
  p_.pulse.note_call(monotonic_now() - began, !done);
  p_.pulse.leave_collective(number);
  return done;
}

}  // namespace stoker::train
