// What the decider remembers of the followers of a run (`after:` of RUN.yaml): for each the
// checkpoints that its command is still to be run on, and how the last one went.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "core/event.hpp"

namespace stoker::core::followers {

// One try: a job of its own. It is over when its command's end is read, or when the scheduler has
// said that the job has ended and its folder, read some time later, holds no such end.
struct Job {
  Token token;
  JobId job;  // 0 = not known: the submission is under way
  Instant since;
  WallTime wall;
  bool asked = false;          // the submission, or the search for it, has no answer yet
  bool unknown = false;        // a submission had no answer: a job may be there
  std::uint32_t refusals = 0;  // submissions without success, in a row
  Instant again;               // when it is submitted again, where it was refused
  bool runs = false;
  std::optional<Instant> over_at;  // the scheduler says that it has ended
  std::string over;                // how: "TIMEOUT"
  bool gone = false;               // it is no longer known how, nor whether: its command may run
  bool looked_for = false;         // its folder is read for a last time
  bool by_hand = false;            // a person cancelled it
  bool ordered = false;            // its command ended on the scheduler's order, which says why
  // A job may wait or run.
  [[nodiscard]] bool is_there() const { return job.job != 0 || asked || unknown; }
  STOKER_FIELDS(Job, token, job, since, wall, asked, unknown, refusals, again, runs, over_at, over,
                gone, looked_for, by_hand, ordered)
};

// A checkpoint that the command is to be run on.
struct Following {
  Iteration iteration;
  Generation generation;
  std::string checkpoint;   // directory name; "" = of a foreign format
  std::uint32_t tries = 0;  // that failed
  Instant at;               // not before
  bool left = false;        // not wanted any more: its job is only seen to its end
  std::optional<Job> job;
  STOKER_FIELDS(Following, iteration, generation, checkpoint, tries, at, left, job)
};

struct Result {  // of the checkpoint that was done with last
  Iteration iteration;
  bool good = false;
  std::string text;  // "exit code 3: no such file"
  double seconds = 0;
  WallTime wall;
  STOKER_FIELDS(Result, iteration, good, text, seconds, wall)
};

struct Folder {  // of tries that are over
  Iteration iteration;
  Generation generation;
  bool leaving = false;  // it is being deleted
  Instant again;         // it could not be deleted: not tried before
  STOKER_FIELDS(Folder, iteration, generation, leaving, again)
};

struct Follower {
  std::vector<Following> open;  // oldest first
  Iteration newest;             // checkpoints up to here were taken up or passed over
  std::uint64_t good = 0, given_up = 0, skipped = 0;
  std::uint64_t left_out = 0;  // of them, since it fell behind
  std::optional<Result> last;
  std::vector<Folder> folders;  // oldest first
  std::uint64_t stuck = 0;      // times that one could not be deleted
  STOKER_FIELDS(Follower, open, newest, good, given_up, skipped, left_out, last, folders, stuck)
};

}  // namespace stoker::core::followers
