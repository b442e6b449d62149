// RUN.yaml: `after`, commands that are run on checkpoints.
#include <algorithm>
#include <fmt/format.h>

#include "configs/schema/run_sections.hpp"

namespace stoker::configs {
namespace {

constexpr std::size_t kMostFollowers = 16;

// It is part of a job's name and of a folder's.
bool is_follower_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= 32 && plain(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return plain(c) || c == '_' || c == '-'; });
}

void read_follower(MapReader& m, core::FollowerPolicy& f, const core::RunPolicy& p) {
  m.read("name", f.name);
  m.check("name", is_follower_name(f.name),
          "a follower's name is 1 to 32 letters, digits, '_' or '-', the first a letter or digit");
  m.check("name",
          std::none_of(p.after.begin(), p.after.end(),
                       [&](const core::FollowerPolicy& other) { return other.name == f.name; }),
          fmt::format("two followers are called \"{}\"", f.name));
  m.require("every", f.every);
  if (m.has("every")) m.check("every", f.every > 0, "must be at least 1 iteration");
  m.require("command", f.command);
  if (m.has("command"))
    m.check("command", !f.command.empty() && !f.command.front().empty(), "is empty");
  m.read("environment", f.environment);
  read_between(m, "nodes", f.nodes, 1, 100000);
  read_positive(m, "time_limit", f.time_limit);
  m.read("partition", f.partition);
  m.read("account", f.account);
  m.read("gpus_per_node", f.gpus_per_node);
  m.read("cpus_per_task", f.cpus_per_task);
  read_between(m, "at_once", f.at_once, 1, 100);
  read_between(m, "tries", f.tries, 1, 100);
  read_positive(m, "wait", f.wait);
  read_between(m, "backlog", f.backlog, 1, 1000);
}

}  // namespace

void read_after(MapReader& root, core::RunPolicy& p) {
  const std::size_t count = root.list("after", [&](ValueReader& item) {
    core::FollowerPolicy follower;
    follower.name = fmt::format("after{}", p.after.size() + 1);
    follower.partition = p.scheduler.partition;
    follower.account = p.scheduler.account;
    follower.gpus_per_node = p.scheduler.gpus_per_node;
    follower.cpus_per_task = p.scheduler.cpus_per_task;
    item.map([&](MapReader& m) { read_follower(m, follower, p); });
    p.after.push_back(std::move(follower));
  });
  root.check("after", count <= kMostFollowers,
             fmt::format("{} followers; at most {} are possible", count, kMostFollowers));
}

}  // namespace stoker::configs
