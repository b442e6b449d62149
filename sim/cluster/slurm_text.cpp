// Answers in the form of squeue, scontrol, sbatch, scancel and sinfo (22.05 to 25.x; the forms are
// those of the captured texts in tests/slurm).
#include "sim/cluster/slurm_text.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "sim/transcript/words.hpp"
#include "slurm/queue_poll.hpp"

namespace stoker::sim {
namespace {

using core::JobState;

os::CommandOutput says(std::string out) {
  os::CommandOutput output;
  output.out = std::move(out);
  return output;
}
os::CommandOutput refuses(std::string err, int code = 1) {
  os::CommandOutput output;
  output.err = std::move(err);
  output.status.code = code;
  return output;
}
const char* kGone = "slurm_load_jobs error: Invalid job id specified\n";

}  // namespace

std::string after(const std::vector<std::string>& argv, std::string_view flag) {
  for (std::size_t i = 0; i + 1 < argv.size(); ++i)
    if (argv[i] == flag) return argv[i + 1];
  return "";
}

std::set<std::uint64_t> numbers_of(std::string_view list) {
  std::set<std::uint64_t> ids;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(word.size() + 1, list.size()));
    ids.insert(parse_job(word).job);
  }
  return ids;
}

std::string epoch_seconds(Instant at) {
  return at == Instant{} ? "N/A" : std::to_string(1'777'600'000 + (at - Instant{}) / 1s);
}

std::string full_id(const SimJob& job, std::uint32_t number) {
  return job.array && number != 0 ? fmt::format("{}_{}", job.id, number) : std::to_string(job.id);
}

namespace {

std::uint64_t raw_id(const SimJob& job, const SimTask& task) {
  return task.own != 0 ? task.own : job.id;
}

// What an answer shows of a job: its tasks by number; what is left of a cancelled array as task 0.
std::map<std::uint32_t, SimTask> shown(const SimJob& job) {
  std::map<std::uint32_t, SimTask> tasks;
  for (const auto& [number, task] : job.state)
    if (!task.unlisted) tasks.emplace(number, task);
  return tasks;
}

const char* reason_of(const SimTask& task) {
  if (task.state != JobState::Pending) return "None";
  if (task.priority == 0) return task.by_user ? "JobHeldUser" : "JobHeldAdmin";
  return "Priority";
}

void add_field(std::string& out, char letter, const SimJob& job, std::uint32_t number,
               const SimTask& task) {
  switch (letter) {
    case 'A': out += std::to_string(raw_id(job, task)); return;
    case 'F': out += std::to_string(job.id); return;
    case 'K': out += job.array && number != 0 ? std::to_string(number) : "N/A"; return;
    case 'T': out += name_of(task.state); return;
    case 'r': out += reason_of(task); return;
    case 'S': out += epoch_seconds(task.started); return;
    case 'e': out += epoch_seconds(task.ends_at); return;
    case 'V': out += epoch_seconds(job.submitted + 1s); return;
    case 'N': out += task.node_list; return;
    case 'U': out += "1000"; return;
    case 'u': out += "trainer"; return;
    case 'o': out += job.command; return;
    case 'j': out += job.name; return;
    case 'k': out += job.comment; return;
    default: out += '?';
  }
}

std::string unquoted(std::string text) {
  std::erase(text, '"');
  return text;
}

}  // namespace

void SlurmText::wake(Fault liar, bool awake) {
  if (liar == Fault::SqueueStale && awake) stale_ = rows(slurm::queue_command("")).out;
  if (awake)
    awake_.insert(liar);
  else
    awake_.erase(liar);
}

os::CommandOutput SlurmText::rows(const Argv& argv) {
  const std::string format = after(argv, "-o");
  const auto wanted = numbers_of(after(argv, "-j"));
  std::string out;
  bool found = false;
  for (const auto& [id, job] : cluster_.jobs()) {
    if (!wanted.empty() && !wanted.contains(id)) continue;
    found = true;
    for (const auto& [number, task] : shown(job)) {
      for (std::size_t i = 0; i < format.size(); ++i)
        if (format[i] == '%' && i + 1 < format.size())
          add_field(out, format[++i], job, number, task);
        else
          out += format[i];
      out += '\n';
    }
  }
  return found || wanted.empty() ? says(out) : refuses(kGone);
}

// squeue -O "JobArrayID:64,RestartCnt:16,exit_code:16"
os::CommandOutput SlurmText::columns(const Argv& argv) {
  const auto wanted = numbers_of(after(argv, "-j"));
  std::string out;
  for (const auto& [id, job] : cluster_.jobs()) {
    if (!wanted.contains(id)) continue;
    for (const auto& [number, task] : shown(job))
      out += fmt::format("{:<64}{:<16}{:<16}\n", full_id(job, number), task.restarts,
                         256 * task.exit_code + task.signal);
  }
  return out.empty() ? refuses(kGone) : says(out);
}

// What the liars make of a good list of lines.
void SlurmText::bend(std::string& text) {
  if (!lies()) return;
  if (is(Fault::SqueueStale)) text = stale_;
  if (is(Fault::SqueueEmpty)) text.clear();
  if (is(Fault::SqueueForeign)) {
    std::string foreign;
    for (int i = 1; i <= 3; ++i)
      foreign += fmt::format("{0}|{0}|N/A|RUNNING|None|1|2|1|x{1}|7|other|/x.sh|other|(null)\n",
                             7000 + i, i);
    std::replace(foreign.begin(), foreign.end(), '|', '\x1f');
    text = foreign;
  }
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at) + "\n");
    at = end + 1;
  }
  if (is(Fault::SqueueShuffled))
    for (std::size_t i = lines.size(); i > 1; --i) std::swap(lines[i - 1], lines[random_.below(i)]);
  if (is(Fault::SqueueDoubled)) lines.insert(lines.end(), lines.begin(), lines.end());
  text.clear();
  for (const std::string& line : lines) text += line;
  if (is(Fault::SqueueTorn) && !text.empty()) text.resize(random_.below(text.size()));
}

// The steps of running and suspended tasks (22.05.8 shows both as RUNNING): the batch script's on
// the first node, and the agents' while they live.
std::string SlurmText::steps(const std::string& job_text, bool records) {
  const JobId wanted = parse_job(job_text);
  std::string out;
  const auto found = cluster_.jobs().find(wanted.job);
  if (found == cluster_.jobs().end()) return out;
  for (const auto& [number, task] : found->second.state) {
    const bool there = task.state == JobState::Running || task.state == JobState::Suspended;
    if (!there || (wanted.task != 0 && wanted.task != number)) continue;
    const std::string id = full_id(found->second, number);
    const auto add = [&](const char* step, const std::string& nodes, const char* name) {
      out += records ? fmt::format("StepId={}.{} UserId=1000 State=RUNNING NodeList={} Name={}\n",
                                   id, step, nodes, name)
                     : fmt::format("{}.{}\x1f{}\x1f{}\n", id, step, nodes, name);
    };
    add("batch", task.nodes.front().text, "batch");
    if (task.processes) add("0", task.node_list, "stoker-agent");
  }
  return out;
}

Result<os::CommandOutput> SlurmText::squeue(const Argv& argv) {
  if (is(Fault::SqueueFails))
    return refuses("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n");
  if (is(Fault::SqueueHangs)) return fail("timed out", "squeue");
  if (std::find(argv.begin(), argv.end(), "-s") != argv.end())
    return says(steps(after(argv, "-j"), false));
  const bool formatted = !after(argv, "-O").empty();
  os::CommandOutput output = formatted ? columns(argv) : rows(argv);
  if (!formatted && output.status.ok()) bend(output.out);
  return output;
}

namespace {

std::string array_text(const SimJob& job, std::uint32_t number) {
  if (!job.array) return "";
  return fmt::format("ArrayJobId={} ArrayTaskId={} ", job.id,
                     number == 0 ? 0xfffffffe : number);  // NO_VAL, as 22.05 prints it
}

std::string list_or_null(const std::vector<NodeName>& nodes) {
  return nodes.empty() ? "(null)" : compress_hostlist(nodes);
}

}  // namespace

os::CommandOutput SlurmText::show_jobs(const Argv& argv) {
  const auto wanted = argv.back() == "-o" ? std::set<std::uint64_t>{} : numbers_of(argv.back());
  std::string out;
  for (const auto& [id, job] : cluster_.jobs()) {
    if (!wanted.empty() && !wanted.contains(id)) continue;
    for (const auto& [number, task] : shown(job))
      out += fmt::format(
          "JobId={} {}JobName={} UserId=trainer(1000) JobState={} "
          "Reason=None Dependency=(null) Requeue={} Restarts={} BatchFlag=1 Reboot=0 "
          "ExitCode={}:{} "
          "EndTime={} ReqNodeList={} ExcNodeList={} NodeList={} NumNodes={} Command={} WorkDir={} "
          "Comment={}\n",
          raw_id(job, task), array_text(job, number), job.name, name_of(task.state),
          job.requeue ? 1 : 0, task.restarts, task.exit_code, task.signal,
          epoch_seconds(task.ends_at), list_or_null(task.require), list_or_null(task.exclude),
          task.node_list, job.nodes, job.command, job.directory, job.comment);
  }
  if (out.empty()) return wanted.empty() ? says("No jobs in the system\n") : refuses(kGone);
  return says(out);
}

os::CommandOutput SlurmText::scontrol(const Argv& argv) {
  const bool shows = std::find(argv.begin(), argv.end(), "show") != argv.end();
  if (shows && argv.back() == "config")
    return says(
        fmt::format("Configuration data as of now\nAccountingStorageType   = "
                    "accounting_storage/{}\nBOOT_TIME = 1\nClusterName             = sim\n",
                    shape_.accounts ? "slurmdbd" : "none"));
  if (shows && argv[argv.size() - 2] == "step") return says(steps(argv.back(), true));
  if (shows) return show_jobs(argv);
  if (argv.size() > 2 && argv[1] == "update") return update(argv);
  if (argv.size() > 2) return act(argv[1], parse_job(argv[2]));
  return refuses("scontrol: unknown request\n");
}

namespace {

Duration length_of(const std::string& text) {  // "1-02:03:04"
  const auto dash = text.find('-');
  const std::string clock = dash == std::string::npos ? text : text.substr(dash + 1);
  const auto days = dash == std::string::npos ? 0 : std::stoll(text);
  const auto two = [&](std::size_t at) { return (clock[at] - '0') * 10 + (clock[at + 1] - '0'); };
  return std::chrono::seconds(two(0) * 3600 + two(3) * 60 + two(6)) + std::chrono::hours(24 * days);
}

// "--nodes=4" of a script's line or of the command.
void set_option(SimJob& job, const std::string& option) {
  const std::size_t equals = std::min(option.find('='), option.size());
  const std::string key = option.substr(0, equals);
  const std::string value = unquoted(option.substr(std::min(equals + 1, option.size())));
  const auto number = [&](std::size_t from) {
    std::uint64_t n = 0;
    std::from_chars(value.data() + std::min(from, value.size()), value.data() + value.size(), n);
    return n;
  };
  const auto hosts = [&] { return expand_hostlist(value).value_or(std::vector<NodeName>{}); };
  if (key == "--job-name") job.name = value;
  if (key == "--comment") job.comment = value;
  if (key == "--requeue") job.requeue = true;
  if (key == "--no-requeue") job.requeue = false;
  if (key == "--hold") job.held = true;
  if (key == "--no-kill") job.no_kill = true;
  if (key == "--nodelist") job.require = hosts();
  if (key == "--chdir") job.directory = value;
  if (key == "--nodes") job.nodes = static_cast<std::uint32_t>(number(0));
  if (key == "--exclude") job.exclude = hosts();
  if (key == "--time") job.limit = length_of(value);
  if (key == "--array") {
    job.array = true;
    job.tasks = static_cast<std::uint32_t>(number(2));
    const auto percent = value.find('%');
    job.throttle =
        percent == std::string::npos ? job.tasks : static_cast<std::uint32_t>(number(percent + 1));
  }
  if (key == "--dependency") {
    job.singleton = value.find("singleton") != std::string::npos;
    if (const auto at = value.find("afterany:"); at != std::string::npos)
      job.after = number(at + 9);
  }
}

}  // namespace

Result<os::CommandOutput> SlurmText::sbatch(const Argv& argv) {
  if (is(Fault::SubmitRefused))
    return refuses("sbatch: error: Batch job submission failed: job submit limit (user's)\n");
  if (is(Fault::SubmitLost)) return fail("timed out", "sbatch");
  if (std::find(argv.begin(), argv.end(), "--test-only") != argv.end())
    return refuses("sbatch: Job 1 to start at 2026-05-01T06:40:00 using 8 processors\n", 0);
  const auto script = files_.read(argv.back(), 1u << 20);
  if (!script) return refuses("sbatch: error: Unable to open file " + argv.back() + "\n");
  constexpr std::string_view kLine = "#SBATCH ";
  SimJob job;
  job.command = argv.back();
  std::string_view text = *script;
  while (!text.empty()) {
    const std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with(kLine)) set_option(job, line.substr(kLine.size()));
  }
  for (const std::string& word : argv) set_option(job, word);  // the command's win
  const std::uint64_t id = cluster_.submit(std::move(job));
  if (is(Fault::SubmitReplyLost)) return fail("timed out", "sbatch");
  return says(fmt::format("{}\n", id));
}

Result<os::CommandOutput> SlurmText::run(const os::SpawnOptions& options, Duration) {
  const Argv& argv = options.argv;
  if (is(Fault::ControllerDown))
    return refuses(argv.front() +
                   ": error: Unable to contact slurm controller (connect failure)\n");
  if (argv.front() == "squeue") return squeue(argv);
  if (argv.front() == "scontrol") return scontrol(argv);
  if (argv.front() == "sinfo") return nodes();
  if (argv.front() == "sbatch") return sbatch(argv);
  if (argv.front() == "scancel") return scancel(argv);
  if (argv.front() == "srun" && processes_on_) return srun(argv);
  if (argv.front() == "sacct" && shape_.accounts) return accounts(argv);
  return fail("command not found in PATH", argv.front());
}

}  // namespace stoker::sim
