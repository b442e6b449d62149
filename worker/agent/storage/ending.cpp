#include "worker/agent/storage/ending.hpp"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/printable.hpp"
#include "lead/step.hpp"
#include "watch/end_file.hpp"
#include "watch/switch_files.hpp"
#include "worker/agent/control_watch.hpp"

namespace stoker::agent {
namespace {

constexpr std::string_view kOurs = "stoker\n";  // content of a kill switch that stoker has set

bool is_newer(const RunContext& context, OrderNumber order) {
  return context.order && *context.order > order;
}

}  // namespace

std::optional<std::string> why_over(const RunContext& context, Duration most, Duration look) {
  if (context.standalone) return std::nullopt;
  for (Duration waited = 0s;; waited += look) {
    const auto control = read_control(context.run_directory);
    const bool known = control && control->has_value();
    if (known && lead::is_halted(context.order, **control)) return (**control).halt;
    const auto newest = newest_starts(context, 1);
    if (newest.empty()) return std::nullopt;
    const Generation generation = newest[0].generation;
    const auto mark = watch::read_end(context.run_directory, generation);
    if (!mark) {
      tell_stderr("stoker-agent: an end mark does not count: " + mark.error().message());
      return std::nullopt;
    }
    if (!*mark || (known && (**control).lifts >= generation)) return std::nullopt;
    if (!context.order && (**mark).token != context.token) return std::nullopt;
    if (!is_newer(context, (**mark).order) || waited >= most)
      return fmt::format("generation {} has {} ({}) at {}", generation.value,
                         name_of((**mark).kind), (**mark).why, format_rfc3339((**mark).at));
    std::this_thread::sleep_for(look);
  }
}

Status write_end(const std::string& run_directory, const wire::EndMark& mark) {
  const std::string path = fmt::format("{}/{}/{}", run_directory,
                                       wire::generation_name(mark.generation), wire::kEndName);
  const std::string text = to_json_text(mark) + "\n";
  STOKER_TRY(ours, os::claim_file(path, text));
  if (ours) return ok();
  const auto there = watch::read_end(run_directory, mark.generation);
  if (there && *there) return ok();
  return os::replace_file(path, text, os::Durability::Synced);
}

std::string kill_switch_of(const RunContext& context, const wire::Orders& orders) {
  std::string path = orders.kill_switch;
  for (std::size_t i = 0; path.empty() && i + 1 < orders.command.size(); ++i)
    if (orders.command[i] == "--kill-switch") path = orders.command[i + 1];
  return path.empty() || path.front() == '/' ? path : context.run_directory + "/" + path;
}

std::optional<KillSwitch> kill_switch_set(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  // A user who may not read it still sees that it is there, as the training does.
  if (fd ? ::fstat(fd.get(), &info) != 0 : ::stat(path.c_str(), &info) != 0) return std::nullopt;
  char text[16];
  const ssize_t got = fd ? ::pread(fd.get(), text, sizeof text, 0) : 0;
  if (info.st_uid == ::geteuid() && got == static_cast<ssize_t>(kOurs.size()) &&
      kOurs == std::string_view(text, kOurs.size()))
    return std::nullopt;
  return KillSwitch{path, os::user_name_of(info.st_uid),
                    WallTime(std::chrono::seconds(info.st_mtim.tv_sec))};
}

void set_kill_switch(const std::string& path) {
  if (!kill_switch_set(path)) (void)os::replace_file(path, kOurs, os::Durability::Cached, 0664);
}

void clear_kill_switch(const std::string& path) {
  if (!path.empty() && !kill_switch_set(path)) ::unlink(path.c_str());
}

}  // namespace stoker::agent
