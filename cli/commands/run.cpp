// stoker run RUN.yaml: puts a run under supervision. A name that exists is taken up again; what
// changed in its configuration is shown and confirmed.
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <memory>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/published.hpp"
#include "cli/read/run_file.hpp"
#include "cli/read/writers.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/self.hpp"
#include "common/shell_word.hpp"
#include "core/secrets.hpp"
#include "slurm/submission.hpp"

namespace stoker::cli {
namespace {

struct RunFlags {
  std::string path;
  bool foreground = false, dry_run = false, yes = false, json = false;
};

// "scheduler.nodes: 2 -> 3", one line a value that differs.
std::vector<std::string> differences(const Json& before, const Json& after) {
  std::vector<std::string> lines;
  const Json old_flat = before.flatten(), new_flat = after.flatten();
  const auto name = [](std::string key) {
    if (!key.empty()) key.erase(0, 1);
    for (char& c : key)
      if (c == '/') c = '.';
    return key;
  };
  for (const auto& [key, value] : new_flat.items())
    if (!old_flat.contains(key))
      lines.push_back(name(key) + ": (none) -> " + value.dump());
    else if (old_flat[key] != value)
      lines.push_back(name(key) + ": " + old_flat[key].dump() + " -> " + value.dump());
  for (const auto& [key, value] : old_flat.items())
    if (!new_flat.contains(key)) lines.push_back(name(key) + ": " + value.dump() + " -> (none)");
  return lines;
}

// The policy that the run has now, as its journal has it; null when it is new here.
Json known_policy(const std::string& run_directory) {
  auto events = EventFile::open(run_directory);
  if (!events) return {};
  const auto newest = events->newest(1, [](const wire::PublishedEvent& e) {
    return e.kind == "run_added" || e.kind == "policy_changed";
  });
  if (!newest || newest->empty() || !newest->front().event.is_object()) return {};
  return newest->front().event.value("policy", Json());
}

// Shows what changed and asks. True: go on.
bool confirm(const Context& context, const core::RunPolicy& policy, const RunFlags& options) {
  const Console& console = context.console;
  const Json before = known_policy(policy.directory);
  if (!before.is_object()) return true;
  // What was published has no secrets; older versions published them.
  const auto changes =
      differences(core::without_secrets(before), core::without_secrets(Json(policy)));
  if (changes.empty()) {
    console.say("run " + policy.run.text +
                " is known; its configuration has not changed (values of train.environment and "
                "secrets of alert sinks are not compared)");
    return true;
  }
  console.say("run " + policy.run.text + " is known; its configuration changes:");
  for (const std::string& line : changes) console.raw_error("  " + printable(line) + "\n");
  if (options.yes || options.dry_run) return true;
  if (::isatty(STDIN_FILENO) != 1) {
    console.say("nothing was done; --yes takes the changes over");
    return false;
  }
  console.raw_error("go on? [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

std::string shell_words(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

// What would be submitted.
int show_plan(const Context& context, const core::RunPolicy& policy) {
  const Console& console = context.console;
  const core::SubmitRequest request = first_submission(policy);
  console.say(
      fmt::format("nothing is submitted; run {} in {} would get {} tasks of {} nodes, {} "
                  "each",
                  policy.run.text, policy.directory, request.submit.array_tasks,
                  request.submit.nodes, format_duration(request.submit.time_limit)));
  if (policy.scheduler.kind == core::SchedulerKind::Local) {
    console.line(fmt::format("on each of {} nodes of the embedded scheduler: {}",
                             request.submit.nodes,
                             printable(fmt::format("{}", fmt::join(request.agent_command, " ")))));
    console.line(fmt::format("on each rank ({} a node): {}", policy.train.ranks_per_node,
                             printable(fmt::format("{}", fmt::join(policy.train.command, " ")))));
    return kDone;
  }
  const auto submission = slurm::prepare(request);
  if (!submission) return console.say(submission.error().message()), kFailed;
  if (submission->text.empty())
    console.line(printable(
        fmt::format("cd {} && {}", shell_word(submission->folder), shell_words(submission->argv))));
  console.out(printable_lines(submission->text));
  return kDone;
}

// Becomes `stokerd` for this one run; its exit code is ours: 0 finished, 3 held, 4 stopped. It gets
// the text that was checked and confirmed, in a file without a name.
int become_daemon(const Context& context, const core::RunPolicy& policy, const std::string& text) {
  const std::string program = os::own_program("stokerd");
  const os::Fd file(::memfd_create("RUN.yaml", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0 || ::fcntl(file.get(), F_SETFD, 0) != 0)
    return context.console.say(policy.config_path + ": its text cannot be given to stokerd"),
           kFailed;
  std::vector<std::string> argv{program,
                                "--state",
                                context.state,
                                "--run",
                                policy.config_path,
                                "--run-text",
                                std::to_string(file.get()),
                                "--until-end"};
  std::vector<char*> pointers;
  for (std::string& argument : argv) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  context.console.say(program + ": cannot be started: " + std::strerror(errno));
  return kFailed;
}

int submit(const Context& context, const core::RunPolicy& policy, const std::string& text,
           bool json) {
  Deed deed;
  deed.json = json;
  deed.request.verb = "run";
  deed.request.text = text;
  deed.request.arguments["path"] = policy.config_path;
  return act(context, std::move(deed));
}

// A process of this host holds the state directory: a daemon that lives, or is starting.
bool is_held(const std::string& state) {
  const auto text = os::read_file(state + "/stokerd.lock", 4096);
  const auto lock = text ? parse_json(*text, "stokerd.lock") : Result<Json>(Json());
  if (!lock || !lock->is_object() || lock->value("released", Json(true)) != Json(false))
    return false;
  const Json pid = lock->value("pid", Json());
  return pid.is_number_unsigned() && pid > 1u &&
         (::kill(pid.get<pid_t>(), 0) == 0 || errno == EPERM);
}

// `stokerd & stoker run …`: a daemon that was started a moment ago listens soon.
bool is_daemon_here(const std::string& state) {
  constexpr Duration kGrace = 3s, kStart = 30s;
  for (const Instant began = monotonic_now();;) {
    if (daemon_reach(state) != Reach::Away) return true;
    if (monotonic_now() - began >= (is_held(state) ? kStart : kGrace)) return false;
    std::this_thread::sleep_for(50ms);
  }
}

int run(Context& context, const RunFlags& options) {
  const Console& console = context.console;
  const auto checked = read_run_file(context, options.path);
  if (!checked) return console.say(checked.error().message()), kUsage;
  if (show_errors(console, checked->file.errors) != kDone) return kUsage;
  warn_of_writers(console, options.path, checked->file.policy);
  const core::RunPolicy& policy = checked->file.policy;
  // One that is slow to answer is there: the request itself has the longer limit.
  const bool alive =
      options.dry_run || (options.foreground ? daemon_reach(context.state) != Reach::Away
                                             : is_daemon_here(context.state));
  if (!options.dry_run && !alive && !options.foreground)
    return console.say("no daemon is running for " + context.state + "; start one with: " +
                       start_command(context) + "  (or let this run be its own: --foreground)"),
           kFailed;
  if (!options.dry_run && alive && options.foreground)
    return console.say("a daemon is running for " + context.state +
                       " already; leave "
                       "--foreground out"),
           kFailed;
  if (!confirm(context, policy, options)) return kFailed;
  if (options.dry_run) return show_plan(context, policy);
  if (options.foreground) return become_daemon(context, policy, checked->text);
  return submit(context, policy, checked->text, options.json);
}

}  // namespace

Command cmd_run() {
  return {"run",
          "put a run under supervision; a known name is taken up again",
          {"stoker run hello.yaml", "stoker run hello.yaml --dry-run",
           "stoker run hello.yaml --foreground"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<RunFlags>();
            app.add_option("RUN.yaml", options->path, "the run's configuration")->required();
            app.add_flag("--foreground", options->foreground,
                         "be the daemon until the run ends: exit 0 finished, 3 held, 4 stopped");
            app.add_flag("--dry-run", options->dry_run, "show what would be submitted");
            app.add_flag("-y,--yes", options->yes, "take a changed configuration over unasked");
            app.add_flag("--json", options->json, "one JSON document");
            return [&context, options] { return run(context, *options); };
          }};
}

}  // namespace stoker::cli
