// The cluster on disk: <folder>/cluster.db, SQLite. Only the scheduler process opens it (its lock
// file sees to that), so locking_mode is EXCLUSIVE: WAL without shared memory, also where the
// folder is on a network file system. Rows are JSON by the cluster's own fields.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "embedded/cluster.hpp"

namespace stoker::embedded {

// What a turn of the loop changed; saved in one transaction.
struct Changes {
  std::set<NodeName> nodes;
  std::set<std::uint64_t> jobs;
  std::set<JobId> tasks;
  std::set<std::uint64_t> forgotten;  // finished jobs whose accounting goes
  [[nodiscard]] bool empty() const {
    return nodes.empty() && jobs.empty() && tasks.empty() && forgotten.empty();
  }
};

class Store {
 public:
  // Creates the database when it is missing. Errors: no room, no rights, damage (quick_check), a
  // database of a newer version.
  static Result<std::unique_ptr<Store>> open(const std::string& folder);
  ~Store();

  Result<Cluster> load();
  // All of it is durable, or nothing is. next_id goes with every transaction.
  Status save(const Cluster& cluster, const Changes& changes);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker::embedded
