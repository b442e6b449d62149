// The checking half of the trainer: what a failure comes to, whether copies that must be equal are,
// and whether a micro-batch that is computed again comes out the same.
#include <fmt/format.h>

#include "worker/train/loop/trainer.hpp"
#include "worker/train/run/say.hpp"
#include "worker/train/state/replicas.hpp"

namespace stoker::train {
namespace {

wire::NumbersDiffer event_of(Iteration iteration, const char* check, std::string what,
                             const std::vector<std::uint32_t>& ranks, bool outvoted,
                             bool repaired) {
  wire::NumbersDiffer event{iteration, check, std::move(what), {}, outvoted, repaired};
  for (const std::uint32_t rank : ranks) event.ranks.emplace_back(rank);
  return event;
}

}  // namespace

ExitCode Trainer::ended(const Error& error) {
  complain(error);
  if (numbers_differ_) return ExitCode::NumbersDiffer;
  if (data_unreadable_) return ExitCode::DataUnreadable;
  if (is_out_of_memory(error)) return ExitCode::DeviceMemory;
  if (!p_.state.device().finish_copies()) return ExitCode::DeviceFailed;
  return p_.pulse.peer_lost() ? ExitCode::PeerLost : ExitCode::Failed;
}

Status Trainer::stop_differing(const Error& error) {
  numbers_differ_ = true;
  return fail(error);
}

Status Trainer::compare() {
  const TraceSpan span(p_.trace, TraceRow::Check, "replicas");
  const Duration deadline = p_.config.train.deadline;
  const bool tied = p_.layout.ties_ranks(), first = p_.environment.first();
  STOKER_TRY(drift, find_drift(p_.comm, p_.state, tied, deadline));
  if (!drift) return ok();
  bool repaired = false;
  if (p_.config.check.on_drift == recipe::OnDrift::Repair) {
    STOKER_TRY_STATUS(repair_drift(p_.comm, p_.state, tied, deadline));
    STOKER_TRY(left, find_drift(p_.comm, p_.state, tied, deadline));
    repaired = !left;
  }
  if (first)
    tell_event(event_of(position_.iteration, "replicas", drift->text(), drift->ranks,
                        drift->outvoted, repaired));
  if (repaired) {
    if (first)
      complain(
          fmt::format("warning: {} at iteration {}; masters and moments were copied from rank "
                      "{}, the training goes on",
                      drift->text(), position_.iteration.value, drift->good));
    return ok();
  }
  return stop_differing({drift->text(), "",
                         "the state is not trustworthy: restart from the last checkpoint and watch "
                         "these nodes"});
}

Status Trainer::replay(const Step& step) {
  const TraceSpan span(p_.trace, TraceRow::Check, "replay");
  const std::uint64_t turn = position_.iteration.next().value / p_.config.check.replay_every;
  const std::uint32_t replica = replay_.replica_of(turn);
  const BatchCut cut = cut_of(step);
  STOKER_TRY(single, p_.pipeline.replay());
  STOKER_TRY(whole, p_.pipeline.training(static_cast<std::uint32_t>(cut.micro_steps())));
  return replay_.run(
      {replica, *single, *whole, static_cast<double>(step.micro) / static_cast<double>(step.global),
       [&](std::uint32_t m) { return fetch(p_.data, cut.samples(m, replica), step.sequence); },
       [&] { p_.pulse.progress(); }});
}

Result<bool> Trainer::judge_step(bool again) {
  STOKER_TRY(differs, replay_.compare());
  if (!differs) return true;
  const bool repairs = !again && p_.config.check.on_drift == recipe::OnDrift::Repair;
  const Iteration next = position_.iteration.next();
  if (p_.environment.first())
    tell_event(event_of(next, "replay", differs->what, differs->ranks, differs->outvoted, repairs));
  if (!repairs)
    return fail(stop_differing({differs->what, "",
                                "a processor or its memory computes wrongly: restart from the last "
                                "checkpoint without these nodes and test them"})
                    .error());
  if (p_.environment.first())
    complain(fmt::format("warning: {} at iteration {}; the step is made again", differs->what,
                         next.value));
  return false;
}

}  // namespace stoker::train
