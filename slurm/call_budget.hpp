// How often SLURM's controller may be asked. Every question counts (squeue, scontrol, sacct,
// sinfo), for all runs together: on average at most one in 30 s over any hour. The bucket allows a
// burst around an edge and is refilled slowly; a question that cannot wait overdraws it, and the
// next poll waits longer.
#pragma once

#include <mutex>

#include "common/time.hpp"

namespace stoker::slurm {

class CallBudget {
 public:
  // burst + 3600 s / every <= 120 an hour. A zero `every` is no limit (for tests).
  explicit CallBudget(Duration every = 45s, double burst = 36)
      : every_(every), burst_(burst), level_(burst) {}
  void spend(Instant now);
  // Until one question may be asked; zero: now. Any thread.
  [[nodiscard]] Duration wait(Instant now) const;

 private:
  [[nodiscard]] double level(Instant now) const;

  mutable std::mutex mutex_;
  Duration every_;
  double burst_, level_;
  Instant at_{};
};

}  // namespace stoker::slurm
