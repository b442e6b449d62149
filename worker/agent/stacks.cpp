// Stack dumps: /proc, then the tools that are there.
#include "worker/agent/stacks.hpp"

#include <csignal>
#include <fmt/format.h>
#include <future>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "worker/agent/rank_process.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kToolLimit = 20s;
constexpr std::size_t kToolBytes = 4u << 20;
constexpr std::size_t kThreadsShown = 512;

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

std::string run_tool(std::vector<std::string> argv) {
  os::SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                         {kToolVariable, "1"},
                         {"DEBUGINFOD_URLS", ""},
                         {"LC_ALL", "C"}};
  if (const char* path = ::getenv("PATH"); path != nullptr) options.environment["PATH"] = path;
  const std::string name = options.argv.front();
  const auto output = os::run_command(options, kToolLimit, kToolBytes);
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

std::string tool_frames(pid_t pid) {
  const std::string id = std::to_string(pid);
  const std::string executable = one_line(fmt::format("/proc/{}/cmdline", pid));
  const bool python = executable.find("python") != std::string::npos;
  if (python && in_path("py-spy"))
    return "frames by py-spy:\n" + run_tool({"py-spy", "dump", "--pid", id});
  if (python) {
    const auto environment = os::read_file(fmt::format("/proc/{}/environ", pid), 4u << 20);
    const std::string wanted("STOKER_FAULTHANDLER=USR1");
    if (environment && environment->find(wanted) != std::string::npos && ::kill(pid, SIGUSR1) == 0)
      return "faulthandler was asked by USR1: its frames are in the rank's log\n";
  }
  if (in_path("gdb"))
    return "frames by gdb:\n" + run_tool({"gdb", "-p", id, "-batch", "-nx", "-ex",
                                          "set pagination off", "-ex", "thread apply all bt 64"});
  if (in_path("eu-stack")) return "frames by eu-stack:\n" + run_tool({"eu-stack", "-p", id});
  return "no py-spy, gdb or eu-stack on this node: no user frames\n";
}

}  // namespace

std::string stacks_of(pid_t pid, bool tools) {
  bool uninterruptible = false;
  std::string text =
      fmt::format("process {} {}\n", pid, one_line(fmt::format("/proc/{}/cmdline", pid)));
  text += proc_threads(pid, uninterruptible);
  if (uninterruptible)
    text += "in uninterruptible sleep: no tool is attached\n";
  else if (tools)
    text += tool_frames(pid);
  return text;
}

std::uint32_t write_stacks(const std::vector<StackTarget>& targets, const std::string& directory) {
  if (!os::make_directories(directory)) return 0;
  std::vector<std::future<bool>> pending;
  pending.reserve(targets.size());
  for (const StackTarget& target : targets)
    pending.push_back(std::async(std::launch::async, [&target, &directory] {
      std::string text;
      for (const pid_t pid : target.pids) text += stacks_of(pid, true) + "\n";
      return os::replace_file(directory + "/" + target.name + ".txt", text, os::Durability::Cached)
          .has_value();
    }));
  std::uint32_t written = 0;
  for (auto& one : pending) written += one.get() ? 1 : 0;
  return written;
}

}  // namespace stoker::agent
