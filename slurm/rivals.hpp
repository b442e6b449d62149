// Live jobs in the queue that are in a run's way: none of its own, but with its name, or submitted
// from its folders.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/engine/ports.hpp"
#include "slurm/queue_poll.hpp"

namespace stoker::slurm {

// Of every run in `grounds`, one line a job (an array is one job). `user`: who we are; `ours`: jobs
// that we submitted, even when their comment was changed; `may_be`: whether a user's job can be in
// the way of a run of this group (a member of another run's group has no part in this one).
using MayBeRival = std::function<bool(const std::string& user, const std::string& group)>;
std::map<RunName, std::vector<std::string>> find_rivals(
    const std::vector<QueueRow>& rows, const std::vector<core::RunGrounds>& grounds,
    const std::string& user, const std::set<std::uint64_t>& ours, const MayBeRival& may_be);

// This row is a job of our own runs: it carries a token and is ours.
bool is_own(const QueueRow& row, const std::string& user);

}  // namespace stoker::slurm
