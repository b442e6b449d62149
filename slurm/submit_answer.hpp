// What sbatch answered: the id among banners, and whether a failure proves that nothing was
// submitted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/engine/ports.hpp"

namespace stoker::slurm {

// The last line of stdout that is "123" or "123;cluster"; sites print banners before and after it.
std::optional<std::uint64_t> parse_parsable(std::string_view out);

// The cluster of that line; "" = none is named.
std::string named_cluster(std::string_view out);

// The id, or an error. Definite only when sbatch itself said that the controller refused; a
// time-out of the socket, a missing id, a kill: Unknown, and the token must be looked up.
core::PortResult<JobId> judge_submit(const os::CommandOutput& output);

// sbatch --test-only: no set of nodes can satisfy this, busy or not. (Where nodes are only busy it
// names a time.)
bool leaves_too_few_nodes(const os::CommandOutput& tried);

// Words after which the controller may have taken the job all the same, and those of a documented
// refusal.
bool loses_the_controller(std::string_view said);
bool is_refusal(std::string_view said);

// What to do about a refusal ("Invalid account or account/partition combination specified", …);
// "" when it is not a documented one.
std::string advice_for(std::string_view refusal);

}  // namespace stoker::slurm
