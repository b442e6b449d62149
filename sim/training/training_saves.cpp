// Saves of the simulated training: what is kept, copied to another disk, and deleted.
#include <algorithm>

#include "sim/training/training.hpp"
#include "wire/keep_rule.hpp"
#include "wire/lineage.hpp"

namespace stoker::sim {
namespace {

constexpr int kDiskFull = 23;  // exit code of a training that cannot save

}  // namespace

void Training::finish_save(SimGeneration& g) {
  if (hooks_.disk_full()) {
    report(g, g.attempt_nodes.front(),
           wire::NodeEvent{wire::SaveFailed{g.base, "No space left on device"}});
    return rank_fails(g, g.attempt_nodes.front(), kDiskFull, 0);
  }
  const wire::CheckpointId id{g.base, g.number};
  std::erase_if(checkpoints_, [&](const SimCheckpoint& c) {  // a damaged one is moved aside
    return c.id == id && c.damaged;
  });
  const bool there = std::any_of(checkpoints_.begin(), checkpoints_.end(),
                                 [&](const SimCheckpoint& c) { return c.id == id; });
  if (!there) checkpoints_.push_back({id, tears_next_, g.zombie, g.line, drifts_});
  tears_next_ = false;
  wire::CheckpointSaved saved;
  saved.iteration = g.base;
  saved.checkpoint = wire::checkpoint_name(g.base, g.number);
  saved.bytes = 1u << 30;
  saved.seconds = to_seconds(scenario_.training.save);
  report(g, g.attempt_nodes.front(), wire::NodeEvent{std::move(saved)});
}

bool Training::must_stay(const SimGeneration& g, const SimCheckpoint& c) {
  return g.orders().archive_every > 0 && c.id.iteration.value % g.orders().archive_every == 0 &&
         !c.archived;
}

// As the lead's archiver does it: one copy at a time, oldest first. The other disk refuses each
// fourth; that is tried again after the next save.
void Training::archive(SimGeneration& g) {
  const auto due =
      std::find_if(checkpoints_.begin(), checkpoints_.end(), [&](const SimCheckpoint& c) {
        return must_stay(g, c) && !c.damaged &&
               wire::accepts(g.lineage(), c.id.generation, c.id.iteration);
      });
  if (g.copies || due == checkpoints_.end()) return;
  g.copies = true;
  time_.after(random_.between(1min, 20min), [this, number = g.number, id = due->id] {
    SimGeneration& then = generations_.at(number);
    then.copies = false;
    if (!then.alive || then.zombie) return;
    const std::string name = wire::checkpoint_name(id.iteration, id.generation);
    const std::string& to = then.orders().archive_to;
    if (random_.chance(250))
      return tell(then, wire::ArchiveFailed{id.iteration, name, to, "Input/output error", 1});
    for (SimCheckpoint& c : checkpoints_)
      if (c.id == id) c.archived = true;
    tell(then, wire::CheckpointArchived{id.iteration, name, to + "/" + name, 1u << 30, 60});
    prune(then);
    archive(then);
  });
}

std::vector<std::uint64_t> Training::pins_ordered() {
  const auto& orders = newest_orders();
  return orders ? orders->keep_pin : std::vector<std::uint64_t>();
}

// As the lead's pruner does it: the younger generation prunes, where there is one; what the newest
// orders pin or go back to stays, and what is to be copied first.
void Training::prune(SimGeneration& g) {
  if (generations_.rbegin()->first != g.number) return;
  wire::KeepRule rule{g.orders().keep_last, g.orders().keep_every, pins_ordered(), {}};
  if (const auto& orders = newest_orders(); orders && broken_ != Guard::FollowKept)
    rule.follow = orders->keep_follow;
  std::vector<wire::SurveyedCheckpoint> complete;
  std::set<wire::CheckpointId> in_use = lead::checkpoints_in_use(g.lead.state);
  for (const SimCheckpoint& c : checkpoints_) {
    if (!wire::accepts(g.lineage(), c.id.generation, c.id.iteration)) continue;
    complete.push_back({c.id, !c.damaged || broken_ == Guard::KeepGood});
    if (must_stay(g, c) && broken_ != Guard::ArchiveFirst) in_use.insert(c.id);
  }
  if (const auto& orders = newest_orders();
      orders && orders->resume.mode == wire::ResumeMode::Exact)
    in_use.insert({orders->resume.iteration, orders->resume.generation});
  if (broken_ == Guard::KeepPinned) {
    rule.pin.clear();
    in_use.clear();
  }
  if (const auto& pins = scenario_.policy.checkpoints.pin; broken_ == Guard::RollbackPin)
    rule.pin.insert(rule.pin.end(), pins.begin(), pins.end());
  wire::CheckpointsDeleted deleted;
  const auto gone = wire::choose_prunable(std::move(complete), rule, in_use);
  if (gone.empty()) return;
  hooks_.deletes(g, gone);
  for (const wire::CheckpointId& id : gone) {
    deleted.checkpoints.push_back(wire::checkpoint_name(id.iteration, id.generation));
    std::erase_if(checkpoints_, [&](const SimCheckpoint& c) { return c.id == id; });
  }
  tell(g, std::move(deleted));
}

}  // namespace stoker::sim
