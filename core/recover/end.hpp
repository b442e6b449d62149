// The end of a run happens once, also while the daemon is away. Finished, stopped and held for a
// person are words about the run: control.json carries them, and a job's first act reads them
// (wire/control.hpp: halt). What a lead decided alone is in its end mark (wire/end_mark.hpp).
// A person's `resume` lifts both.
#pragma once

#include <string>

#include "core/turn.hpp"

namespace stoker::core {

// The iteration after which the training is finished: what RUN.yaml says, else what the training
// reports; 0 = not known.
std::uint64_t last_iteration(const RunState& run);
// What says that the running job is ending or over although the scheduler has not said so: of
// agents their goodbye or end mark, of a script the last iteration or an error in its logs. "" =
// nothing; another text is another sign.
std::string sign_of_end(const RunState& run);
// The last iterations run: what waits behind the job would start for nothing.
bool is_near_end(const RunState& run);
// Cancels what waits once that is so.
void cancel_unneeded(Turn& turn);

// Nothing is to start until a person says so.
bool is_over(const TrainingState& state);

// No generation may begin from now on.
void halt(Turn& turn, const std::string& why);
// They may again; ends up to this generation are lifted.
void lift_end(Turn& turn, Generation through);

// The lead of a generation says that the run is over with it. False: it does not count, a person
// resumed the run since, or a newer generation exists.
bool heed_end(Turn& turn, const wire::EndMark& end);
// The same of a mark that was seen, and whose lead has died before it could say so. False: none
// that counts.
bool heed_known_end(Turn& turn);

}  // namespace stoker::core
