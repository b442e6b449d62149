// Files first, in the order of their use; then commands, each with its own patience: one that hangs
// costs only its own answer.
#include "cli/support/collect.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "common/os/self.hpp"
#include "common/os/way.hpp"

namespace stoker::cli::support {
namespace {

constexpr std::size_t kMiB = 1u << 20;
constexpr std::size_t kGenerations = 3, kRankLogs = 16, kStacks = 64;
constexpr std::size_t kShownName = 100;  // of one that is left out
constexpr Duration kPatience = 20s;

// The last `most` bytes of a regular file, never through a link, and on a way without links of
// other users: a colleague's run directory could lead to private files, and the bundle is passed
// on. From the first whole line on.
Result<std::string> end_of_file(const std::string& path, std::size_t most) {
  struct stat entry {};
  if (::lstat(path.c_str(), &entry) == 0 && S_ISLNK(entry.st_mode))
    return fail("is a symbolic link", path);
  STOKER_TRY(opened, os::open_on_way(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!opened) return fail("is not there", path);
  const os::Fd& fd = *opened;
  if (::fstat(fd.get(), &entry) != 0 || !S_ISREG(entry.st_mode))
    return fail("is no regular file", path);
  const auto size = static_cast<std::size_t>(std::max<off_t>(0, entry.st_size));
  const std::size_t from = size > most ? size - most : 0;
  std::string text(size - from, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t n =
        ::pread(fd.get(), text.data() + have, text.size() - have, static_cast<off_t>(from + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot read", path));
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  text.resize(have);
  if (from > 0) {
    text.erase(0, std::min(text.find('\n') + 1, text.size()));
    text.insert(0, fmt::format("[the first {} bytes are left out]\n", size - text.size()));
  }
  return text;
}

class Collector {
 public:
  Collector(const Plan& plan, Redactor redactor) : plan_(plan), redactor_(std::move(redactor)) {}

  void add(const std::string& name, const std::string& text) {
    if (!can_hold(name))
      return leave_out(name.substr(0, kShownName) + "…", "its name is too long for the archive");
    std::string clean = redactor_.clean(text);
    if (bundle_.bytes + clean.size() > plan_.most_bytes)
      return leave_out(name, fmt::format("{} bytes would be more than --most", clean.size()));
    bundle_.bytes += clean.size();
    bundle_.entries.push_back({name, std::move(clean)});
  }

  void file(const std::string& name, const std::string& path, std::size_t most) {
    const auto text = end_of_file(path, most);
    if (text)
      add(name, *text);
    else if (os::exists(path))
      leave_out(name, text.error().message());
  }

  void command(const std::string& name, std::vector<std::string> argv) {
    os::SpawnOptions options;
    options.argv = std::move(argv);
    options.environment = plan_.environment;
    const auto answer = os::run_command(options, kPatience, 2 * kMiB);
    if (!answer) return leave_out(name, answer.error().message());
    add(name, fmt::format("$ {}\n{}{}{}[{}]\n", fmt::join(options.argv, " "), answer->out,
                          answer->out.empty() || answer->out.back() == '\n' ? "" : "\n",
                          answer->err, answer->status.text()));
  }

  void leave_out(const std::string& name, const std::string& why) {
    bundle_.left_out.push_back(name + ": " + why);
  }

  Bundle finish(WallTime now);

 private:
  const Plan& plan_;
  Redactor redactor_;
  Bundle bundle_;
};

Bundle Collector::finish(WallTime now) {
  utsname host{};
  ::uname(&host);
  Json files = Json::array();
  for (const Entry& entry : bundle_.entries)
    files.push_back({{"name", entry.name}, {"bytes", entry.text.size()}});
  bundle_.hidden = redactor_.hidden();
  const Json manifest{{"version", 1},
                      {"run", plan_.run.run},
                      {"written", format_rfc3339(now)},
                      {"stoker", STOKER_VERSION},
                      {"kernel", fmt::format("{} {}", host.sysname, host.release)},
                      {"machine", host.machine},
                      {"files", std::move(files)},
                      {"left_out", bundle_.left_out},
                      {"secrets_hidden", bundle_.hidden}};
  bundle_.entries.push_back({"manifest.json", manifest.dump(1) + "\n"});
  return std::move(bundle_);
}

// Newest names with this beginning, newest first.
std::vector<std::string> newest_names(const std::string& directory, std::string_view prefix,
                                      std::size_t most) {
  std::vector<std::string> found;
  const auto names = os::list_directory(directory);
  if (!names) return found;
  for (auto name = names->rbegin(); name != names->rend() && found.size() < most; ++name)
    if (name->starts_with(prefix)) found.push_back(*name);
  return found;
}

void add_generation(Collector& to, const std::string& run, const std::string& name) {
  const std::string directory = run + "/" + name;
  for (const char* file : {"start.json", "end.json"})
    to.file(name + "/" + file, directory + "/" + file, kMiB);
  to.file(name + "/lead.jsonl", directory + "/lead.jsonl", 4 * kMiB);
  to.file(name + "/main.log", directory + "/main.log", 2 * kMiB);
  // Not agents/lead.json: it has the generation's secret.
  for (const std::string& agent : newest_names(directory + "/agents", "", 64))
    if (agent.ends_with(".jsonl"))
      to.file(name + "/agents/" + agent, directory + "/agents/" + agent, kMiB / 4);
  for (const std::string& log : newest_names(directory + "/ranks", "", kRankLogs))
    if (log.ends_with(".log"))
      to.file(name + "/ranks/" + log, directory + "/ranks/" + log, kMiB / 8);
  for (const std::string& stacks : newest_names(directory + "/stacks", "", 1))
    for (const std::string& file : newest_names(directory + "/stacks/" + stacks, "", kStacks)) {
      const std::string path = "/stacks/" + stacks + "/" + file;
      to.file(name + path, directory + path, kMiB / 8);
    }
}

void add_files(Collector& to, const Plan& plan) {
  const std::string& run = plan.run.directory;
  to.file("status.json", run + "/status.json", kMiB);
  if (!plan.run.copy.empty()) to.file("status.copy.json", plan.run.copy + "/status.json", kMiB);
  to.file("events.jsonl", run + "/events.jsonl", 16 * kMiB);
  to.file("chronicle.md", run + "/chronicle.md", 2 * kMiB);
  to.file("control.json", run + "/control.json", kMiB);
  to.file("owner.json", run + "/owner.json", kMiB);
  for (const std::string& order : newest_names(run + "/orders", "", kGenerations))
    to.file("orders/" + order, run + "/orders/" + order, kMiB);
  for (const std::string& generation : newest_names(run, "gen-", kGenerations))
    add_generation(to, run, generation);
  to.file("site/site.json", plan.state + "/published/site.json", kMiB);
  to.file("site/nodes.jsonl", plan.state + "/published/nodes.jsonl", 4 * kMiB);
  to.file("site/events.jsonl", plan.state + "/published/events.jsonl", 4 * kMiB);
  to.file("site/pulse.log", plan.state + "/pulse.log", kMiB);
}

void add_answers(Collector& to, const Plan& plan) {
  const std::string stoker = os::own_program("stoker");
  const auto ask = [&](const std::string& name, std::vector<std::string> words) {
    std::vector<std::string> argv{stoker, "--state", plan.state};
    argv.insert(argv.end(), words.begin(), words.end());
    to.command("answers/" + name + ".txt", std::move(argv));
  };
  ask("version", {"--version"});
  ask("doctor", {"doctor"});
  ask("status", {"status", plan.run.run});
  ask("why", {"why", plan.run.run, "--last", "50"});
  ask("nodes", {"nodes"});
  ask("alerts", {"alerts"});
  ask("metrics", {"metrics"});
  std::vector<std::string> logs{"diagnose"};
  for (const std::string& generation : newest_names(plan.run.directory, "gen-", 1))
    if (const std::string log = plan.run.directory + "/" + generation + "/main.log";
        os::exists(log) && os::open_folder_before(log, ::geteuid()).empty())
      logs.push_back(log);  // diagnose opens it by itself, so no colleague may exchange it
  if (logs.size() > 1) ask("diagnose", logs);
  const std::string name = "--name=" + plan.run.run;
  to.command("answers/squeue.txt", {"squeue", "-a", "-l", name});
  to.command("answers/sinfo.txt", {"sinfo", "-R", "-l"});
  to.command("answers/slurm-version.txt", {"scontrol", "--version"});
}

}  // namespace

Bundle collect(const Plan& plan, Redactor redactor, WallTime now) {
  Collector collector(plan, std::move(redactor));
  add_answers(collector, plan);
  add_files(collector, plan);
  return collector.finish(now);
}

}  // namespace stoker::cli::support
