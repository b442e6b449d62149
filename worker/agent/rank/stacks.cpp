// Stack dumps: /proc, then the tools that are there.
#include "worker/agent/rank/stacks.hpp"

#include <charconv>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <future>
#include <thread>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "diagnose/cause/stack_groups.hpp"
#include "worker/agent/rank/process_tree.hpp"
#include "worker/agent/rank/rank_process.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kToolLimit = 20s;
constexpr auto kAsideOrLater =
    std::launch::async | std::launch::deferred;  // where no thread can be
constexpr std::size_t kToolBytes = 4u << 20;
constexpr std::size_t kThreadsShown = 512;
constexpr Duration kFaulthandlerLimit = 2s;
constexpr std::size_t kFaulthandlerBytes = 256u << 10;
constexpr std::size_t kOddShown = 16;

std::string one_line(const std::string& path) {
  const auto text = os::read_file(path, 1u << 16);
  if (!text || text->empty()) return "-";
  std::string line = text->substr(0, text->find('\n'));
  for (char& c : line)
    if (c == '\0') c = ' ';
  return line;
}

char thread_state(const std::string& folder) {
  const std::string stat = one_line(folder + "/stat");
  const auto close = stat.rfind(')');
  return close == std::string::npos || close + 2 >= stat.size() ? '?' : stat[close + 2];
}

std::string proc_threads(pid_t pid, bool& uninterruptible) {
  std::string text;
  const auto tasks = os::list_directory(fmt::format("/proc/{}/task", pid));
  if (!tasks) return "  gone\n";
  std::size_t shown = 0;
  for (const auto& task : *tasks) {
    if (++shown > kThreadsShown)
      return text + fmt::format("  … {} threads in all\n", tasks->size());
    const std::string folder = fmt::format("/proc/{}/task/{}", pid, task);
    const char state = thread_state(folder);
    if (state == 'D') uninterruptible = true;
    text += fmt::format("  thread {} {} state {} wchan {} syscall {}\n", task,
                        one_line(folder + "/comm"), state, one_line(folder + "/wchan"),
                        one_line(folder + "/syscall"));
    const auto kernel = os::read_file(folder + "/stack", 1u << 16);
    if (kernel && !kernel->empty()) text += *kernel;
  }
  return text;
}

// What one tool may take before `end`.
Duration time_left(Instant end) {
  return std::min<Duration>(kToolLimit, end - monotonic_now());
}

std::string run_tool(std::vector<std::string> argv, Instant end) {
  const Duration limit = time_left(end);
  if (limit <= 0ns) return "  no time was left for it\n";
  os::SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                         {kToolVariable, "1"},
                         {"DEBUGINFOD_URLS", ""},
                         {"LC_ALL", "C"}};
  if (const char* path = ::getenv("PATH"); path != nullptr) options.environment["PATH"] = path;
  const std::string name = options.argv.front();
  const auto output = os::run_command(options, limit, kToolBytes);
  if (!output) return fmt::format("  {}\n", output.error().message());
  if (output->status.ok() || !output->out.empty()) return output->out;
  return fmt::format("  {}: {}: {}\n", name, output->status.text(), output->err.substr(0, 500));
}

bool in_path(const char* program) {
  std::string_view folders = ::getenv("PATH") != nullptr ? ::getenv("PATH") : "/usr/bin:/bin";
  while (!folders.empty()) {
    const auto folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
    if (::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::uint64_t size_of(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

// What was written to `path` after its first `from` bytes, once nothing more comes.
std::string grown_text(const std::string& path, std::uint64_t from) {
  std::uint64_t size = from;
  for (const Instant end = monotonic_now() + kFaulthandlerLimit; monotonic_now() < end;) {
    std::this_thread::sleep_for(100ms);
    const std::uint64_t now = size_of(path);
    if (now == size && now > from) break;
    size = now;
  }
  std::string text(std::min<std::uint64_t>(size - std::min(size, from), kFaulthandlerBytes), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

// Python's faulthandler, where the rank says by STOKER_FAULTHANDLER=USR1 that it has registered it
// for that signal, and has.
std::string faulthandler_frames(pid_t pid, const std::string& log) {
  const auto environment = os::read_file(fmt::format("/proc/{}/environ", pid), 4u << 20);
  if (!environment || environment->find("STOKER_FAULTHANDLER=USR1") == std::string::npos) return {};
  if (!catches_signal(pid, SIGUSR1)) return {};
  const std::uint64_t before = size_of(log);
  if (::kill(pid, SIGUSR1) != 0) return {};
  const std::string text = log.empty() ? std::string() : grown_text(log, before);
  if (text.empty()) return "USR1 triggered faulthandler: its frames are in the rank's log\n";
  return "frames by faulthandler:\n" + text + "\n";
}

std::string tool_frames(pid_t pid, const std::string& log, Instant end) {
  const std::string id = std::to_string(pid);
  const std::string executable = one_line(fmt::format("/proc/{}/cmdline", pid));
  const bool python = executable.find("python") != std::string::npos;
  if (python && in_path("py-spy"))
    return "frames by py-spy:\n" + run_tool({"py-spy", "dump", "--pid", id}, end);
  if (python) {
    if (const std::string frames = faulthandler_frames(pid, log); !frames.empty()) return frames;
  }
  if (in_path("gdb"))
    return "frames by gdb:\n" + run_tool({"gdb", "-p", id, "-batch", "-nx", "-ex",
                                          "set pagination off", "-ex", "thread apply all bt 64"},
                                         end);
  if (in_path("eu-stack")) return "frames by eu-stack:\n" + run_tool({"eu-stack", "-p", id}, end);
  return "no py-spy, gdb or eu-stack on this node: no user frames\n";
}

std::string proc_text(pid_t pid, bool& uninterruptible) {
  return fmt::format("process {} {}\n", pid, one_line(fmt::format("/proc/{}/cmdline", pid))) +
         proc_threads(pid, uninterruptible);
}

std::string user_frames(pid_t pid, const std::string& log, bool uninterruptible, Instant end) {
  return uninterruptible ? "in uninterruptible sleep: no tool is attached\n"
                         : tool_frames(pid, log, end);
}

// What /proc shows of a target, by process.
struct States {
  std::vector<std::string> texts;
  std::vector<bool> uninterruptible;
};

States states_of(const StackTarget& target) {
  States states;
  for (const pid_t pid : target.pids) {
    bool uninterruptible = false;
    states.texts.push_back(proc_text(pid, uninterruptible));
    states.uninterruptible.push_back(uninterruptible);
  }
  return states;
}

bool write_text(const States& states, const std::vector<std::string>& frames,
                const std::string& path) {
  std::string text;
  for (std::size_t i = 0; i < states.texts.size(); ++i)
    text += states.texts[i] + (i < frames.size() ? frames[i] : "") + "\n";
  return os::replace_file(path, text, os::Durability::Cached).has_value();
}

}  // namespace

std::string stacks_of(pid_t pid, const std::string& log) {
  bool uninterruptible = false;
  const std::string text = proc_text(pid, uninterruptible);
  return text + user_frames(pid, log, uninterruptible, monotonic_now() + kToolLimit);
}

std::uint32_t write_stacks(const std::vector<StackTarget>& targets, const std::string& directory,
                           const std::function<void(std::uint32_t)>& first, Duration limit) {
  if (!os::make_directories(directory)) return 0;
  const Instant end = monotonic_now() + limit;
  const auto path_of = [&](const StackTarget& target) {
    return directory + "/" + target.name + ".txt";
  };
  std::vector<States> states;
  std::uint32_t written = 0;
  for (const StackTarget& target : targets) {
    states.push_back(states_of(target));
    written += write_text(states.back(), {}, path_of(target)) ? 1 : 0;
  }
  if (first) first(written);
  std::vector<std::future<void>> pending;
  for (std::size_t i = 0; i < targets.size(); ++i)
    pending.push_back(std::async(kAsideOrLater, [&, i] {
      std::vector<std::string> frames;
      for (std::size_t p = 0; p < targets[i].pids.size(); ++p)
        frames.push_back(
            user_frames(targets[i].pids[p], targets[i].log, states[i].uninterruptible[p], end));
      (void)write_text(states[i], frames, path_of(targets[i]));
    }));
  for (auto& one : pending) one.get();
  return written;
}

std::string stack_tools() {
  std::string found;
  for (const char* tool : {"gdb", "eu-stack", "py-spy"})
    if (in_path(tool)) found += (found.empty() ? "" : ", ") + std::string(tool);
  return found;
}

wire::StacksWritten group_written(const std::string& directory) {
  wire::StacksWritten written;
  const auto names = os::list_directory(directory);
  if (!names) return written;
  std::vector<diagnose::RankStack> stacks;
  for (const std::string& name : *names) {  // n01.3.txt
    if (!name.ends_with(".txt")) continue;
    const std::string stem = name.substr(0, name.size() - 4);
    const auto dot = stem.rfind('.');
    diagnose::RankStack stack;
    if (dot == std::string::npos || dot + 1 == stem.size()) continue;
    if (std::from_chars(stem.data() + dot + 1, stem.data() + stem.size(), stack.rank).ec !=
        std::errc{})
      continue;
    auto text = os::read_file(directory + "/" + name, kToolBytes, true);
    if (!text) continue;
    stack.node = stem.substr(0, dot);
    stack.text = *std::move(text);
    stacks.push_back(std::move(stack));
  }
  const diagnose::StackReport report = diagnose::group_stacks(stacks);
  written.groups = static_cast<std::uint32_t>(report.groups.size());
  for (const auto& member : report.odd)
    if (written.odd.size() < kOddShown)
      written.odd.push_back({Rank(member.rank), NodeName(member.node)});
  return written;
}

}  // namespace stoker::agent
