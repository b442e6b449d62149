// Jobs as slurmrestd lists them -> rows of the queue, as `squeue -r` has them: one a task, also of
// tasks that still wait together.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "slurm/controller.hpp"
#include "slurm/rest/json_items.hpp"

namespace stoker::slurm {

class JobRows {
 public:
  explicit JobRows(const QueueQuestion& question);

  // Of jobs that the question is not about nothing but the cluster's name is read. Error: a wanted
  // job without a field that is needed, which is named.
  Status add(const JsonItem& job);
  // Whether it says so: of a user whom the question is not about.
  [[nodiscard]] bool is_anothers(const JsonItem& job) const;
  std::vector<QueueRow> take();
  [[nodiscard]] const std::string& cluster() const { return cluster_; }  // "" = not said

 private:
  [[nodiscard]] bool wanted(const JsonItem& job) const;
  Result<NodeList> nodes_of(const std::string& text);

  const QueueQuestion& question_;
  std::set<std::string> users_;
  std::string cluster_;
  NodeLists seen_;
  std::vector<QueueRow> rows_;
};

// "2-10%1", "1,3,7-9:2": the tasks, in order. Error: another form, or too many.
Result<std::vector<std::uint32_t>> tasks_in(std::string_view text);

// A node's state as sinfo writes it: "drained", "mixed-", "down*".
std::string node_state_of(const JsonItem& node);
Result<core::NodeSeen> node_seen_in(const JsonItem& node);

}  // namespace stoker::slurm
