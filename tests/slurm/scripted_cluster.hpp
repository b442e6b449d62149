// A scripted SLURM: answers by command, calls remembered; and files in memory.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/engine/ports.hpp"

namespace stoker::slurm::testing {

inline Result<os::CommandOutput> says(const std::string& out, const std::string& err = "",
                                      int code = 0) {
  os::CommandOutput output;
  output.out = out;
  output.err = err;
  output.status.code = code;
  return output;
}

class ScriptedProcesses : public core::Processes {
 public:
  // The answers to a command's calls, in order; the last one stays.
  std::map<std::string, std::deque<Result<os::CommandOutput>>> answers;
  std::vector<os::SpawnOptions> calls;

  Result<os::CommandOutput> run(const os::SpawnOptions& options, Duration) override {
    calls.push_back(options);
    const auto found = answers.find(options.argv.front());
    if (found == answers.end() || found->second.empty())
      return fail("command not found in PATH", options.argv.front());
    Result<os::CommandOutput> answer = found->second.front();
    if (found->second.size() > 1) found->second.pop_front();
    return answer;
  }
  [[nodiscard]] std::size_t count(const std::string& command) const {
    std::size_t n = 0;
    for (const auto& call : calls) n += call.argv.front() == command ? 1 : 0;
    return n;
  }
};

class MemoryFiles : public core::Files {
 public:
  std::map<std::string, std::string> content;

  Result<std::string> read(const std::string& path, std::size_t) override {
    const auto found = content.find(path);
    if (found == content.end()) return fail("no such file", path);
    return found->second;
  }
  Status replace(const std::string& path, std::string_view text) override {
    content[path] = text;
    return ok();
  }
  Status append(const std::string& path, std::string_view text) override {
    content[path] += text;
    return ok();
  }
  Result<bool> create_once(const std::string& path, std::string_view text) override {
    return content.emplace(path, text).second;
  }
  Result<bool> exists(const std::string& path) override { return content.count(path) > 0; }
  Status rename(const std::string& from, const std::string& to) override {
    content[to] = content[from];
    content.erase(from);
    return ok();
  }
  Status remove_folder(const std::string& base, const std::string& folder,
                       const std::vector<std::string>& files) override {
    for (const std::string& file : files) content.erase(base + "/" + folder + "/" + file);
    return ok();
  }
  Status make_directories(const std::string&, unsigned) override { return ok(); }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>{};
  }
  Result<std::string> tree(const std::string&) override { return std::string("none"); }
};

inline core::SubmitRequest example_request() {
  core::SubmitRequest request;
  request.submit.token = Token("tr11-42-0badcafe");
  request.submit.order = OrderNumber(42);
  request.submit.array_tasks = 10;
  request.submit.nodes = 3;
  request.submit.time_limit = 20h;
  request.submit.exclude = {NodeName("n052"), NodeName("n053")};
  request.policy.run = RunName("tr11");
  request.policy.directory = "/gpfs/tr11/run";
  request.policy.train.command = {"/sw/stoker-train", "--config", "tr11.yaml"};
  request.policy.scheduler.exclude = request.submit.exclude;
  request.policy.scheduler.partition = "gpu_p5";
  request.policy.scheduler.account = "six@a100";
  request.policy.scheduler.gpus_per_node = 8;
  request.policy.scheduler.cpus_per_task = 64;
  request.policy.scheduler.extra = {"--hint=nomultithread"};
  request.agent_command = {"/sw/stoker-agent", "--run", "tr11"};
  request.environment = {{"STOKER_RUN", "tr11"}, {"STOKER_TOKEN", "tr11-42-0badcafe"}};
  return request;
}

// A row of the poll: id, array, task, state, reason, start, end, submit, nodes, uid, [user,
// command,] name, comment.
inline std::string row(std::vector<std::string> fields) {
  if (fields.size() == 12) fields.insert(fields.begin() + 10, {"alice", "(null)"});
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) out += (i == 0 ? "" : "\x1f") + fields[i];
  return out + "\n";
}

}  // namespace stoker::slurm::testing
