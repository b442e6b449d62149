// Published files, read whole but with small limits; nothing here waits for anything.
#include "cli/read/published.hpp"

#include <algorithm>
#include <filesystem>

#include "common/os/files.hpp"
#include "configs/schema/run_schema.hpp"
#include "configs/schema/yaml_scalars.hpp"

namespace stoker::cli {
namespace {

constexpr std::size_t kMaxDocument = 8u << 20;
constexpr std::size_t kMaxNodesFile = 64u << 20;
// A silent daemon (stopped, or stuck) keeps no document fresher than this.
constexpr Duration kFresh = 60s;

std::string base_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

bool is_run_directory(const std::string& path) {
  return os::exists(path + "/status.json") || os::exists(path + "/orders") ||
         os::exists(path + "/events.jsonl");
}

Result<wire::StatusDocument> read_document(const std::string& path) {
  STOKER_TRY(text, os::read_file(path, kMaxDocument));
  return from_json_text<wire::StatusDocument>(text, path);
}

bool is_old(const wire::StatusDocument& status, WallTime now) {
  const auto at = parse_rfc3339(status.published);
  return !at || now - *at >= kFresh;
}

bool is_silent(const wire::StatusDocument& status) {
  const auto& all = status.conditions;
  return std::find(all.begin(), all.end(), "directory_silent") != all.end();
}

// The fresher one of two: the run directory may be full or away, and so may the daemon's own copy.
// Where that says that the run directory does not answer, it is not touched: who looks would hang.
Result<wire::StatusDocument> freshest_status(const wire::SiteRun& run) {
  if (run.copy.empty()) return read_document(run.directory + "/status.json");
  auto copy = read_document(run.copy + "/status.json");
  if (copy && is_silent(*copy) && !is_old(*copy, wall_now())) return copy;
  auto own = read_document(run.directory + "/status.json");
  if (!copy) return own;
  if (!own) return copy;
  const auto at = parse_rfc3339(own->published), copied = parse_rfc3339(copy->published);
  return copied && (!at || *copied > *at) ? copy : own;
}

}  // namespace

Result<wire::SiteDocument> published_site(const std::string& state) {
  const std::string path = state + "/published/site.json";
  if (!os::exists(path)) return wire::SiteDocument{};
  STOKER_TRY(text, os::read_file(path, kMaxDocument));
  return from_json_text<wire::SiteDocument>(text, path);
}

Result<std::vector<wire::SiteRun>> published_runs(const std::string& state) {
  STOKER_TRY(site, published_site(state));
  return site.runs;
}

Result<wire::SiteRun> find_run(const std::string& state, const std::string& name) {
  auto runs = published_runs(state);
  if (runs)
    for (const wire::SiteRun& run : *runs)
      if (run.run == name) return run;
  STOKER_TRY(given, os::absolute_path(name));
  const std::string path = std::filesystem::path(given).lexically_normal().string();
  for (const std::string& candidate : {path, state + "/runs/" + name}) {
    if (name.empty() || !is_run_directory(candidate)) continue;
    const bool slash = candidate.ends_with('/');
    if (runs)
      for (const wire::SiteRun& known : *runs)
        if (known.directory == (slash ? candidate.substr(0, candidate.size() - 1) : candidate))
          return known;
    wire::SiteRun run{base_name(slash ? candidate.substr(0, candidate.size() - 1) : candidate),
                      slash ? candidate.substr(0, candidate.size() - 1) : candidate, ""};
    // The folder may be a colleague's, and so its text: no name that leads elsewhere.
    if (auto status = read_status(run, Reach::Away); status && configs::is_run_name(status->run))
      run.run = status->run;
    return run;
  }
  if (!runs) return fail(runs.error());
  std::vector<std::string> names;
  for (const wire::SiteRun& run : *runs) names.push_back(run.run);
  const std::string near = configs::nearest_name(name, names);
  return fail(
      "there is no run and no run directory of this name", printable(name),
      near.empty() ? "stoker status lists the runs of " + state : "did you mean \"" + near + "\"?");
}

Result<wire::StatusDocument> read_status(const wire::SiteRun& run, Reach reach) {
  STOKER_TRY(status, freshest_status(run));
  if (status.run.empty()) status.run = run.run;
  if (status.directory.empty()) status.directory = run.directory;
  status.stale = is_stale(status, reach, wall_now());
  return std::move(status);
}

bool is_stale(const wire::StatusDocument& status, Reach reach, WallTime now) {
  return reach == Reach::Away || reach == Reach::Stuck || is_old(status, now);
}

Result<std::vector<wire::PublishedNode>> published_nodes(const std::string& state) {
  const std::string path = state + "/published/nodes.jsonl";
  if (!os::exists(path)) return std::vector<wire::PublishedNode>{};
  STOKER_TRY(text, os::read_file(path, kMaxNodesFile));
  std::vector<wire::PublishedNode> nodes;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    STOKER_TRY(node, from_json_text<wire::PublishedNode>(line, path));
    nodes.push_back(node);
  }
  return nodes;
}

Reach note_daemon(const Context& context) {
  std::string trouble;
  const Reach reach = daemon_reach(context.state, &trouble);
  if (reach == Reach::Away)
    context.console.say("no daemon is running for " + context.state +
                        ": this is what it last published");
  else if (reach == Reach::Stuck)
    context.console.say("the daemon does nothing, because it cannot write its journal (" +
                        printable(trouble) + "): this is what it last published");
  else if (reach == Reach::Silent || reach == Reach::Busy)
    context.console.say("the daemon does not answer at once: this is what it last published");
  return reach;
}

Result<wire::SiteRun> only_run(const std::string& state) {
  STOKER_TRY(runs, published_runs(state));
  if (runs.size() == 1) return runs[0];
  return fail(runs.empty() ? "there is no run" : "there is more than one run", state,
              "give the name of the run");
}

}  // namespace stoker::cli
