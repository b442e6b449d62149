// The end of a run happens once, also while the daemon is away. Finished, stopped and held for a
// person are words about the run: control.json carries them, and a job's first act reads them
// (wire/control.hpp: halt). What a lead decided alone is in its end mark (wire/end_mark.hpp).
// A person's `resume` lifts both.
#pragma once

#include <string>

#include "core/turn.hpp"

namespace stoker::core {

// Nothing is to start until a person says so.
bool is_over(const TrainingState& state);

// No generation may begin from now on.
void halt(Turn& turn, const std::string& why);
// They may again; ends up to this generation are lifted.
void lift_end(Turn& turn, Generation through);

// The lead of a generation says that the run is over with it.
void heed_end(Turn& turn, const wire::EndMark& end);
// The same of a mark that was seen, and whose lead has died before it could say so. False: none.
bool heed_known_end(Turn& turn);

}  // namespace stoker::core
