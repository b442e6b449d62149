// The end of a run as files: the end mark that a lead makes durable, what a job's first act finds,
// and a foreign training's own kill switch.
#pragma once

#include <optional>
#include <string>

#include "lead/event.hpp"
#include "wire/control.hpp"
#include "wire/end_mark.hpp"
#include "wire/orders.hpp"
#include "worker/agent/storage/claim.hpp"

namespace stoker::agent {

// Why nothing may start here: the run is over, and no person has lifted that; empty: it may. A lift
// may be seen late: a submission that is newer than the end waits up to `most` for it.
std::optional<std::string> why_over(const RunContext& context, Duration most = kOrdersLatest,
                                    Duration look = 1s);

// gen-*/end.json, synced; only its lead writes it. What lies there and does not count is replaced.
Status write_end(const std::string& run_directory, const wire::EndMark& mark);

// The kill switch of the training itself, put there by a person.
using lead::KillSwitch;
// Its path, absolute; "" = the training has none.
std::string kill_switch_of(const RunContext& context, const wire::Orders& orders);
// Empty: it does not lie there, or is our own.
std::optional<KillSwitch> kill_switch_set(const std::string& path);
// Our own: set, and taken away before ranks start.
void set_kill_switch(const std::string& path);
void clear_kill_switch(const std::string& path);

}  // namespace stoker::agent
