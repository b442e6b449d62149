// What a scheduler can do and how it behaves, as values: the decider asks these, never which
// scheduler it is. To add a backend: its enumerator in policy.hpp and its row here; the compiler
// names every switch that is without it.
#pragma once

#include "core/policy.hpp"

namespace stoker::core {

// Good answers without a token, and over how long: then that submission was never taken.
struct AbsenceProof {
  std::uint32_t answers;
  Duration length;
};

struct SchedulerTraits {
  // From a task's proven end to the decision without its agents: how late their files may be seen.
  Duration last_words;
  AbsenceProof absence;
  bool probes;        // a step inside a running job can be asked for what lives there
  bool drains;        // its nodes can be drained for everybody
  bool tasks_meet;    // an array's next task may start although the one before still runs
  bool asked_rarely;  // a question costs others: while a run trains, it is asked less often
};

constexpr SchedulerTraits traits_of(SchedulerKind kind) {
  switch (kind) {
    // On this host files are seen at once, and a submission is a transaction.
    case SchedulerKind::Local: return {2s, {3, 5s}, false, false, false, false};
    // A cluster's controller may take a late sbatch minutes after the client gave up.
    case SchedulerKind::Slurm: return {7s, {5, 2min}, true, true, true, true};
  }
  return {7s, {5, 2min}, false, false, false, true};  // no such kind: nothing is taken for granted
}

}  // namespace stoker::core
