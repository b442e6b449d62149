// A real cluster in a temporary folder: real scheduler process, real node processes, shell scripts
// as agents. Ends and removes all of it, and checks that nothing of it is left running.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "embedded/local_scheduler.hpp"

namespace stoker::embedded::testing {

class ClusterFixture {
 public:
  ClusterFixture();
  ~ClusterFixture();
  ClusterFixture(const ClusterFixture&) = delete;
  ClusterFixture& operator=(const ClusterFixture&) = delete;

  // A job whose agents run this shell script in an own folder (path()); one node, one task.
  SubmitJob script(const std::string& text, const std::string& name = "run");
  JobId submit(const SubmitJob& job);  // the array's id
  Answer must(const Request& request);
  std::string refusal(const Request& request);  // the error's text; "" when it was accepted

  core::JobSeen task(const JobId& id);
  std::vector<core::JobSeen> all();
  core::NodeSeen node(const std::string& name);
  // Waits up to `limit`; false when it did not come true.
  bool eventually(const std::function<bool()>& condition, Duration limit = 30s);
  bool reaches(const JobId& id, core::JobState state, Duration limit = 30s);

  [[nodiscard]] const std::string& path() const { return work_; }
  [[nodiscard]] std::string read(const std::string& name) const;  // of path(); "" when absent
  [[nodiscard]] std::string output(const JobId& id, const std::string& node,
                                   std::uint32_t restart = 0) const;
  [[nodiscard]] pid_t scheduler_pid() const;  // 0 = none
  [[nodiscard]] pid_t node_pid(const JobId& id, const std::string& node) const;
  [[nodiscard]] std::size_t live_processes() const;  // of this cluster's jobs

  LocalOptions options;
  int next_token = 1;

 private:
  std::string root_, work_;
};

bool pid_alive(pid_t pid);

}  // namespace stoker::embedded::testing
