// Looking at nodes, partitions, reservations and limits: seldom, beside the queue.
#include "slurm/calendar.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::slurm {
namespace {

constexpr Duration kNodesEvery = 10min;
constexpr Duration kPartitionsEvery = 1h;

}  // namespace

// Nodes are a help, not a proof: an answer that cannot be used is left for the next time.
void SlurmScheduler::look_at_nodes(core::SchedulerView& view, bool now) {
  if (nodes_at_ && !now && options_.now() - *nodes_at_ < kNodesEvery) return;
  auto nodes = controller_->nodes("", {});
  if (!nodes) return;
  view.nodes = std::move(*nodes);
  {
    const std::scoped_lock lock(mutex_);
    nodes_.clear();
    for (const core::NodeSeen& node : view.nodes) nodes_.insert(node.node);
    nodes_at_ = options_.now();
  }
  look_at_calendar(view);
}

// With the nodes, by commands alone; half an answer changes nothing. Partitions hardly change.
void SlurmScheduler::look_at_calendar(core::SchedulerView& view) {
  if (!partitions_at_ || options_.now() - *partitions_at_ >= kPartitionsEvery) {
    const auto nodes = controller_->question(partitions_command());
    if (!nodes || !nodes->status.ok()) return;
    auto found = parse_partitions(nodes->out);
    if (!found) return;
    partitions_ = std::move(*found);
    partitions_at_ = options_.now();
  }
  const auto reserved = controller_->question(reservations_command());
  if (!reserved || !reserved->status.ok()) return;
  auto found = parse_reservations(reserved->out);
  if (!found) return;
  const std::scoped_lock lock(mutex_);
  view.calendar = core::CalendarSeen{partitions_, std::move(*found), max_array_};
}

}  // namespace stoker::slurm
