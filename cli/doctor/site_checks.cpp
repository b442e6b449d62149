// The order is that of the report: what everything else rests on comes first.
#include "cli/doctor/site_checks.hpp"

#include <array>
#include <charconv>
#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

#include "cli/acting.hpp"
#include "cli/read/daemon_client.hpp"
#include "cli/read/published.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "common/os/self.hpp"
#include "configs/schema/run_checks.hpp"

namespace stoker::cli {
namespace {

std::string search_path(const Context& context) {
  const auto found = context.environment.find("PATH");
  return found == context.environment.end() ? "/usr/bin:/bin" : found->second;
}

// The nearest folder above `path` that exists.
std::string existing(std::string path) {
  while (path.size() > 1 && !os::exists(path))
    path.resize(std::max<std::size_t>(path.rfind('/'), 1));
  return path;
}

Finding check_state(const Context& context) {
  const std::string why = configs::why_not_writable(context.state);
  if (!why.empty())
    return {"state directory", Health::Bad, why, "make it writable, or set STOKER_STATE"};
  const auto fs = os::file_system_of(existing(context.state));
  if (!fs)
    return {"state directory", Health::Bad, fs.error().message(), "set STOKER_STATE elsewhere"};
  if (fs->network)
    return {"state directory", Health::Note,
            context.state + " is on " + fs->name + ": the journal works in epochs under a lease",
            "a local disk is quicker, if only one host runs stokerd"};
  return {"state directory", Health::Good, context.state + " on " + fs->name, ""};
}

Finding check_inotify(const Context& context) {
  const os::Fd fd(::inotify_init1(IN_CLOEXEC));
  if (!fd)
    return {"inotify", Health::Note, "no instance is left: files are polled once a second",
            "raise fs.inotify.max_user_instances"};
  const auto fs = os::file_system_of(existing(context.state));
  if (fs && fs->network)
    return {"inotify", Health::Note,
            "useless on " + fs->name + " for what other hosts write: files are polled", ""};
  return {"inotify", Health::Good, "works as a hint; polling is the truth", ""};
}

Finding check_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string found = fmt::format("{} open files", limit.rlim_cur);
  if (limit.rlim_cur < 256) return {"ulimit -n", Health::Bad, found, "ulimit -n 4096"};
  if (limit.rlim_cur < 1024) return {"ulimit -n", Health::Note, found, "ulimit -n 4096"};
  return {"ulimit -n", Health::Good, found, ""};
}

// What docs/security.md promises about names that others make in shared folders rests on these.
Finding check_link_protection() {
  std::string off;
  for (const char* name : {"protected_hardlinks", "protected_symlinks", "protected_regular"}) {
    const auto text = os::read_file(std::string("/proc/sys/fs/") + name, 64);
    if (text && text->starts_with("0")) off += (off.empty() ? "fs." : ", fs.") + std::string(name);
  }
  if (off.empty()) return {"kernel links", Health::Good, "links of others are guarded", ""};
  return {"kernel links", Health::Note, off + " = 0",
          "ask the administrator to set it to 1: docs/security.md says what rests on it"};
}

// Where it is set, users can mount files that look like those of others.
bool users_show_files() {
  const auto text = os::read_file("/etc/fuse.conf", 64u << 10);
  return ("\n" + text.value_or("") + "\n").find("\nuser_allow_other\n") != std::string::npos;
}

Finding check_clock() {
  timex t{};
  const int state = ::adjtimex(&t);
  const WallTime now = wall_now();
  const std::string shown = format_rfc3339(now);
  if (shown < "2024")
    return {"clock", Health::Bad, "it shows " + shown, "set the clock, run an NTP client"};
  if (state == TIME_ERROR || (t.status & STA_UNSYNC) != 0)
    return {"clock", Health::Note, shown + ", not synchronised as far as the kernel knows",
            "run an NTP client; stoker compares ages, not clocks, so this only shifts times shown"};
  return {"clock", Health::Good, shown + ", synchronised", ""};
}

Finding check_curl() {
  const curl_version_info_data* info = ::curl_version_info(CURLVERSION_NOW);
  const bool tls = (info->features & CURL_VERSION_SSL) != 0;
  const std::string found =
      fmt::format("libcurl {}, {}", info->version, tls ? info->ssl_version : "without TLS");
  if (!tls) return {"alerts by HTTP", Health::Bad, found, "install a libcurl with TLS"};
  return {"alerts by HTTP", Health::Good, found, ""};
}

// What an agent on this host could learn from; a compute node may differ.
Finding check_kernel_log() {
  const os::Fd kmsg(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::array<char, 8192> buffer{};
  const bool readable = kmsg && (::read(kmsg.get(), buffer.data(), buffer.size()) >= 0 ||
                                 errno == EAGAIN || errno == EPIPE);
  bool nvml = false;
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/aarch64-linux-gnu"})
    nvml = nvml || os::exists(std::string(folder) + "/libnvidia-ml.so.1");
  const std::string gpu = nvml ? "NVML is there" : "no NVML (no NVIDIA driver here)";
  if (readable) return {"kernel log", Health::Good, "/dev/kmsg can be read; " + gpu, ""};
  return {"kernel log", Health::Note, "/dev/kmsg cannot be read by this user; " + gpu,
          nvml ? "Xid events and ECC counters come from NVML"
               : "let the nodes' kernel logs be written to a shared disk and name them in "
                 "watch.kernel_logs"};
}

Finding check_stack_tools(const Context& context) {
  std::string have;
  for (const char* tool : {"gdb", "eu-stack", "py-spy"})
    if (configs::find_program(tool, search_path(context)))
      have += (have.empty() ? "" : ", ") + std::string(tool);
  if (have.empty())
    return {"stacks", Health::Note, "no gdb, eu-stack or py-spy: only kernel frames",
            "install gdb or elfutils on the nodes, py-spy for Python ranks"};
  return {"stacks", Health::Good, have, ""};
}

Finding check_shared_memory() {
  struct statvfs s {};
  if (::statvfs("/dev/shm", &s) != 0)
    return {"/dev/shm", Health::Bad, "is not there", "mount a tmpfs on /dev/shm"};
  const std::uint64_t free = std::uint64_t{s.f_bavail} * s.f_frsize;
  const std::string found = fmt::format("{} MiB free", free >> 20);
  if (free < (16u << 20))
    return {"/dev/shm", Health::Bad, found, "remove what dead processes left in /dev/shm"};
  return {"/dev/shm", Health::Good, found, ""};
}

Finding check_programs() {
  std::string missing;
  for (const char* program : {"stokerd", "stoker-agent", "stoker-train"})
    if (!os::exists(os::own_program(program)))
      missing += (missing.empty() ? "" : ", ") + std::string(program);
  if (missing.empty())
    return {"programs", Health::Good, "all of them beside " + os::own_program("stoker"), ""};
  const bool only_train = missing == "stoker-train";
  return {"programs", only_train ? Health::Note : Health::Bad,
          missing + " not beside " + os::own_program("stoker"),
          only_train ? "needed only where stoker's own training core is used"
                     : "install the whole of stoker in one folder"};
}

std::vector<Finding> check_scheduler(const Context& context) {
  if (configs::find_program("sbatch", search_path(context))) return check_slurm(context);
  return {{"scheduler", Health::Good, "no SLURM here; the embedded one needs nothing",
           "for SLURM: run on a login node, with sbatch in PATH"}};
}

// The runs that a daemon has under supervision and that have not ended.
std::vector<std::string> unobserved_runs(const std::string& state) {
  std::vector<std::string> names;
  const auto runs = published_runs(state);
  if (!runs) return names;
  for (const wire::SiteRun& run : *runs)
    if (const auto status = read_status(run, Reach::Away);
        !status || (status->state != "finished" && status->state != "stopped"))
      names.push_back(run.run);
  return names;
}

Finding check_daemon(const Context& context) {
  switch (daemon_reach(context.state)) {
    case Reach::Answered: return {"daemon", Health::Good, "answers", ""};
    case Reach::Away: return judge_absence(unobserved_runs(context.state), start_command(context));
    case Reach::Barred:
      return {"daemon", Health::Note, "runs, but this user may not talk to it",
              "use the switch files, or ask its owner for the group"};
    case Reach::Stuck:
      return {"daemon", Health::Bad, "cannot write its journal, so it does nothing",
              "df -h " + context.state};
    case Reach::Busy:
      return {"daemon", Health::Bad, "runs, but others have taken its connections",
              "stop, save and pause work through the switch files meanwhile"};
    case Reach::Silent:
      return {"daemon", Health::Bad, "runs, but does not answer",
              "look at its log; kill -9 and a new start harm no training"};
  }
  return {};
}

}  // namespace

Finding judge_absence(const std::vector<std::string>& runs, const std::string& start) {
  if (runs.empty()) return {"daemon", Health::Note, "is not running", start};
  std::string names = printable(runs.front());
  if (runs.size() == 2) names += " and " + printable(runs[1]);
  if (runs.size() > 2) names += " and " + std::to_string(runs.size() - 1) + " other runs";
  return {"daemon", Health::Bad, "is not running, so nothing observes " + names, start};
}

Finding check_sqlite(const std::string& version) {
  std::array<int, 3> number{};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int& part : number) {
    at = std::from_chars(at, end, part).ptr;
    if (at != end) ++at;
  }
  if (number >= std::array{3, 51, 3}) return {"sqlite", Health::Good, version, ""};
  if (number < std::array{3, 37, 0})
    return {"sqlite", Health::Bad, version + ", too old for STRICT tables", "3.37 or newer"};
  return {"sqlite", Health::Note,
          version + " can lose a WAL reset with two writers (fixed in 3.51.3)",
          "nothing to do: stokerd writes and checkpoints through one connection; let no other "
          "program write journal.db"};
}

std::vector<Finding> check_site(const Context& context) {
  std::vector<Finding> findings{check_state(context),
                                check_sqlite(::sqlite3_libversion()),
                                check_inotify(context),
                                check_descriptors(),
                                check_link_protection(),
                                check_clock(),
                                check_curl(),
                                check_kernel_log(),
                                check_stack_tools(context),
                                check_shared_memory(),
                                check_programs(),
                                check_daemon(context),
                                check_keeper(context)};
  if (users_show_files())
    findings.push_back({"fuse.conf", Health::Note,
                        "user_allow_other: users can mount files that look like those of others",
                        "stoker refuses such files; ask the administrator whether it is needed"});
  for (Finding& found : check_scheduler(context)) findings.push_back(std::move(found));
  return findings;
}

}  // namespace stoker::cli
