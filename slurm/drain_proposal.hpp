// Draining needs an operator's rights: the line for an administrator to paste, and the same as
// arguments for who has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker::slurm {

// scontrol update NodeName=n02 State=DRAIN "Reason=stoker: …": why, at most 160 characters, without
// control characters. Error: a node name that no cluster can have.
Result<std::vector<std::string>> drain_arguments(const NodeName& node, const std::string& why);
// Takes the note and the drain away; a node that is down stays down.
Result<std::vector<std::string>> undrain_arguments(const NodeName& node);

// For a shell.
std::string pasteable(const std::vector<std::string>& arguments);

// scontrol was refused: this user may not do it.
bool says_no_right(std::string_view answer);

}  // namespace stoker::slurm
