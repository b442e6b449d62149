#include "embedded/admin.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "embedded/socket.hpp"

namespace stoker::embedded {
namespace {

constexpr const char* kUsage =
    "usage: local-admin list | drain NODE [REASON] | resume NODE | kill-node NODE | requeue JOB |\n"
    "       hold JOB | release JOB | cancel JOB | shutdown [--cancel-jobs]   [--json]\n"
    "example: local-admin kill-node n02\n";

struct Words {
  std::vector<std::string> plain;
  bool json = false, cancel_jobs = false, unknown = false;
};
Words read_words(const std::vector<std::string>& arguments) {
  Words words;
  for (const auto& a : arguments) {
    if (a == "--json")
      words.json = true;
    else if (a == "--cancel-jobs")
      words.cancel_jobs = true;
    else if (a.rfind("--", 0) == 0)
      words.unknown = true;
    else
      words.plain.push_back(a);
  }
  return words;
}

std::optional<Request> node_request(const Words& words) {
  const std::string& verb = words.plain[0];
  const NodeName node(words.plain[1]);
  if (verb == "drain")
    return DrainNode{node, words.plain.size() > 2 ? words.plain[2] : "drained by hand"};
  if (words.plain.size() > 2) return std::nullopt;
  if (verb == "resume") return ResumeNode{node};
  if (verb == "kill-node") return KillNode{node};
  const auto job = from_json<JobId>(Json(words.plain[1]), "job");
  if (!job) return std::nullopt;
  if (verb == "requeue") return RequeueJob{*job};
  if (verb == "hold") return HoldJob{*job};
  if (verb == "release") return ReleaseJob{*job};
  if (verb == "cancel") return CancelJob{{}, *job, false, false};
  return std::nullopt;
}

std::optional<Request> make_request(const Words& words) {
  if (words.unknown || words.plain.empty() || words.plain.size() > 3) return std::nullopt;
  const std::string& verb = words.plain[0];
  if (words.plain.size() == 1) {
    if (verb == "list") return ListAll{};
    if (verb == "shutdown") return Shutdown{words.cancel_jobs};
    return std::nullopt;
  }
  return node_request(words);
}

std::string show_list(const Answer& answer) {
  std::string out = fmt::format("{:<10} {:<20} {:<11} {:<8} {:<16} {}\n", "JOBID", "NAME", "STATE",
                                "EXIT", "NODELIST", "REASON");
  for (const TaskLine& line : answer.lines)
    out += fmt::format("{:<10} {:<20} {:<11} {:<8} {:<16} {}\n", line.seen.job.text(), line.name,
                       name_of(line.seen.state),
                       fmt::format("{}:{}", line.seen.exit_code, line.seen.signal),
                       compress_hostlist(line.seen.nodes), line.seen.reason);
  out += fmt::format("\n{:<10} {:<11} {}\n", "NODE", "STATE", "REASON");
  for (const auto& node : answer.nodes)
    out += fmt::format("{:<10} {:<11} {}\n", node.node.text, node.state, node.reason);
  return out;
}

}  // namespace

int run_admin(const LocalOptions& options, const std::vector<std::string>& arguments,
              std::string& out, std::string& err) {
  const Words words = read_words(arguments);
  const auto request = make_request(words);
  if (!request) {
    err += kUsage;
    return 2;
  }
  const bool shutdown = std::holds_alternative<Shutdown>(*request);
  // Without a scheduler process there may still be live jobs (it was killed): a shutdown that is to
  // cancel them needs one.
  const bool start = !shutdown || words.cancel_jobs;
  if (shutdown && !start && !connect_socket(options.folder)) return 0;
  const auto result = ask(options, *request, start);
  if (const auto* failed = std::get_if<core::PortError>(&result)) {
    err += fmt::format("error: {}\n", failed->error.message());
    return 1;
  }
  const Answer& answer = std::get<Answer>(result);
  if (words.json)
    out += to_json_text(answer) + "\n";
  else if (words.plain[0] == "list")
    out += show_list(answer);
  return 0;
}

}  // namespace stoker::embedded
