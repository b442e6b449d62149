// Where to begin: the snapshot in memory that was ordered, where all ranks have it; else rank 0
// chooses the checkpoint (the one that was ordered, else the newest good one of the ancestry). Each
// rank reads its share of the files; where one is damaged, rank 0 chooses the next older. All ranks
// load it strictly, and the resume audit compares what was saved with what is there now.
#pragma once

#include <set>
#include <variant>

#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/checkpoint/load.hpp"
#include "worker/train/memory/snapshots.hpp"
#include "worker/train/run/exit_code.hpp"
#include "worker/train/run/rank_environment.hpp"

namespace stoker::train {

struct ResumeParts {
  const recipe::TrainConfig& config;
  const RankEnvironment& environment;
  const AuditFacts& facts;
  const std::set<std::string>& accepted;
  FlatState& state;
  const ModelLayout& layout;
  Comm& comm;
  Snapshots* snapshots = nullptr;
  bool switched_off = false;  // on rank 0: a kill switch is there already
};

struct ResumePoint {
  Position position;
  bool from_checkpoint = false;  // on the disk
};

// Collective. An ExitCode when there is nothing to train; the reason has been printed.
std::variant<ResumePoint, ExitCode> resume(const ResumeParts& parts);

}  // namespace stoker::train
