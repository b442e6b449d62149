// The simulator's SLURM on a cluster of a few nodes, spoken to by its commands.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "sim/cluster/slurm_text.hpp"

namespace stoker::sim {

struct ModelSlurm {
  explicit ModelSlurm(std::uint32_t nodes = 1, bool accounts = false)
      : shape(small(nodes, accounts)) {}

  Timeline time;
  Random random{1};
  SimFiles files;
  ClusterShape shape;
  Cluster cluster{time,
                  random,
                  shape,
                  {[](const SimJob&, std::uint32_t) {}, [](const SimJob&, std::uint32_t, bool) {},
                   [](const std::string&) {}}};
  SlurmText text{cluster, files, time, random, shape};

  static ClusterShape small(std::uint32_t nodes, bool accounts) {
    ClusterShape shape;
    shape.nodes = nodes;
    shape.accounts = accounts;
    shape.queue_wait = shape.task_gap = 0s;
    shape.remembers = 24h;
    shape.requeue_delay = 16s;
    return shape;
  }
  void pass(Duration length) {
    const Instant end = time.now() + length;
    while (time.now() < end) {
      time.run_until(time.now() + 1s, [] { return false; });
      cluster.poll();
    }
  }
  os::CommandOutput run(std::vector<std::string> argv) {
    os::SpawnOptions options;
    options.argv = std::move(argv);
    os::CommandOutput output = text.run(options, 1min).value();
    pass(2s);
    return output;
  }
  // "" when it exits with 0.
  std::string error(std::vector<std::string> argv) {
    const os::CommandOutput output = run(std::move(argv));
    CHECK(output.err.empty() == output.status.ok());
    return output.err;
  }
  // Job 1100, then 1200 …
  std::string submit(const std::string& options) {
    std::string script = "#!/bin/bash\n";
    for (std::size_t at = 0; at < options.size();) {
      const std::size_t end = std::min(options.find(' ', at), options.size());
      script += "#SBATCH " + options.substr(at, end - at) + "\n";
      at = end + 1;
    }
    (void)files.replace("/x.sh", script + "#SBATCH --time=02:00:00\n");
    std::string id = run({"sbatch", "--parsable", "/x.sh"}).out;
    id.pop_back();
    return id;
  }
  std::string rows() { return run({"squeue", "-o", "%K %T %r"}).out; }
  std::string places() { return run({"squeue", "-o", "%K %T %N"}).out; }
  // Lines "ID STATE CODE:SIGNAL NODES COMMENT" of sacct.
  std::string accounts(const std::string& id) {
    const std::string out = run({"sacct", "-j", id}).out;
    std::string short_out;
    std::size_t field = 0;
    for (const char c : out) {
      if (c == '\x1f') ++field;
      if (c == '\n') field = 0;
      const bool wanted =
          field < 3 || field == 4 || field == 7;  // without Submit, User and JobName
      if (wanted) short_out += c == '\x1f' ? ' ' : c;
    }
    return short_out;
  }
  std::string numbers(const std::string& id) {
    std::string out =
        run({"squeue", "-j", id, "-O", "JobArrayID:64,RestartCnt:16,exit_code:16"}).out;
    std::string narrow;
    for (const char c : out)
      if (c != ' ' || (!narrow.empty() && narrow.back() != ' ' && narrow.back() != '\n'))
        narrow += c;
    return narrow;
  }
};

}  // namespace stoker::sim
