// What running agents reported about their nodes, for `stoker doctor`.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/doctor/site_checks.hpp"
#include "cli/read/published.hpp"
#include "common/os/fd.hpp"
#include "wire/agent_event.hpp"

namespace stoker::cli {
namespace {

constexpr std::size_t kHeadBytes = 1u << 20;  // agents join in the first seconds
constexpr std::size_t kNodesShown = 64;

std::string head_of(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::string text(kHeadBytes, '\0');
  std::size_t have = 0;
  while (fd && have < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + have, text.size() - have);
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  text.resize(have);
  return text;
}

Finding finding_of(const std::string& run, const wire::HealthSources& told) {
  Finding finding;
  finding.check = run + "/" + told.node.text;
  for (const wire::HealthSource& source : told.sources) {
    finding.found += fmt::format("{}{}: {}{}", finding.found.empty() ? "" : "; ", source.name,
                                 source.works ? "" : "no, ", source.detail);
    if (source.works) continue;
    finding.health = Health::Note;
    if (source.name == "/dev/shm")
      finding.fix = "remove what dead processes left in /dev/shm of " + told.node.text;
    else if (source.name == "stacks" && finding.fix.empty())
      finding.fix = "install gdb or elfutils on the nodes, py-spy for Python ranks";
  }
  return finding;
}

bool under_way(const std::string& state) {
  return state == "starting" || state == "training" || state == "suspect" ||
         state == "recovering" || state == "stopping";
}

void read_lead(const std::string& run, const std::string& path, std::vector<Finding>& findings) {
  std::string_view text;
  const std::string head = head_of(path);
  text = head;
  std::size_t nodes = 0;
  bool late = false;
  for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const bool sources = line.find("health_sources") != std::string_view::npos;
    if (!sources && line.find("block-buffered") == std::string_view::npos) continue;
    const auto event = wire::parse_event_line(line, path);
    if (!event) continue;
    if (const auto* told = std::get_if<wire::HealthSources>(&event->body);
        told != nullptr && nodes++ < kNodesShown)
      findings.push_back(finding_of(run, *told));
    const auto* notice = std::get_if<wire::Notice>(&event->body);
    if (notice == nullptr || late) continue;
    late = true;
    findings.push_back({run + "/output", Health::Note, notice->text,
                        "PYTHONUNBUFFERED=1 in train.environment, or stdbuf -oL"});
  }
}

}  // namespace

std::vector<Finding> check_running(const Context& context) {
  std::vector<Finding> findings;
  const auto runs = published_runs(context.state);
  if (!runs) return findings;
  for (const wire::SiteRun& run : *runs) {
    const auto status = read_status(run, Reach::Answered);
    if (!status || !under_way(status->state) || status->generation == 0) continue;
    const std::string folder =
        run.directory + "/" + wire::generation_name(Generation(status->generation));
    read_lead(run.run, folder + "/lead.jsonl", findings);
  }
  return findings;
}

}  // namespace stoker::cli
