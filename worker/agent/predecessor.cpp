#include "worker/agent/predecessor.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "wire/agent_event.hpp"
#include "worker/agent/control_watch.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kLook = 100ms;
constexpr std::size_t kLookedAt = 16;   // generations
constexpr off_t kLastWords = 64 << 10;  // of a lead; a goodbye is a short line

// The order number in a submission's token; empty for tokens of another kind.
std::optional<std::uint32_t> order_of(const Token& token, const RunName& run) {
  std::string_view text = token.text;
  if (!text.starts_with(run.text + "-")) return std::nullopt;
  text.remove_prefix(run.text.size() + 1);
  const auto dash = text.find('-');
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (dash == std::string_view::npos || error != std::errc{} || end != text.data() + dash)
    return std::nullopt;
  return number;
}

// Opened each time: a network file system shows what others wrote then.
os::Fd open_now(const std::string& path) {
  return os::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

off_t size_now(const std::string& path) {
  const os::Fd fd = open_now(path);
  struct stat info {};
  return fd && ::fstat(fd.get(), &info) == 0 ? info.st_size : 0;
}

// How much all agents of a generation have written.
off_t words_of(const std::string& directory) {
  off_t all = size_now(directory + "/lead.jsonl");
  if (const auto names = os::list_directory(directory + "/agents"))
    for (const std::string& name : *names)
      if (name.ends_with(".jsonl")) all += size_now(directory + "/agents/" + name);
  return all;
}

bool said_goodbye(const std::string& directory) {
  const std::string path = directory + "/lead.jsonl";
  const os::Fd fd = open_now(path);
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return false;
  std::string text(static_cast<std::size_t>(std::min(info.st_size, kLastWords)), '\0');
  const auto begin = info.st_size - static_cast<off_t>(text.size());
  if (::pread(fd.get(), text.data(), text.size(), begin) != static_cast<ssize_t>(text.size()) ||
      !text.ends_with('\n'))
    return false;
  text.pop_back();
  const auto event = wire::parse_event_line(text.substr(text.rfind('\n') + 1), path);
  const auto* goodbye = event ? std::get_if<wire::Goodbye>(&event->body) : nullptr;
  return goodbye != nullptr && goodbye->lead;
}

// Of these the first that is heard within the time in which a living lead writes thrice.
std::optional<wire::Start> heard_of(const RunContext& context, std::vector<wire::Start> starts) {
  const auto directory = [&](const wire::Start& start) {
    return generation_directory(context, start.generation);
  };
  std::erase_if(starts, [&](const wire::Start& start) { return said_goodbye(directory(start)); });
  if (starts.empty()) return std::nullopt;
  Duration silence = 2s;
  std::vector<off_t> before;
  for (const wire::Start& start : starts) {
    silence = std::max(silence, 3 * wire::beat_every(start.orders.hang_floor));
    before.push_back(words_of(directory(start)));
  }
  for (const Instant end = monotonic_now() + silence; monotonic_now() < end;) {
    for (std::size_t i = 0; i < starts.size(); ++i)
      if (words_of(directory(starts[i])) > before[i] && !said_goodbye(directory(starts[i])))
        return starts[i];
    std::this_thread::sleep_for(kLook);
  }
  return std::nullopt;
}

bool is_told_to_end(const RunContext& context) {
  sigset_t pending;
  ::sigpending(&pending);
  for (const int signal : {SIGTERM, SIGINT})
    if (::sigismember(&pending, signal) == 1) return true;
  for (const char* verb : {"kill", "stop"})
    if (const auto seen = read_switch(context.run_directory, verb); seen && *seen) return true;
  return false;
}

}  // namespace

std::optional<std::string> why_delayed(const RunContext& context) {
  const auto newest = newest_starts(context, 1);
  const auto ours = order_of(context.token, context.run);
  const auto theirs = newest.empty() ? std::nullopt : order_of(newest[0].token, context.run);
  if (!ours || !theirs || *ours >= *theirs || !heard_of(context, newest)) return std::nullopt;
  return fmt::format("job {} of order {} comes late: generation {} is of order {} (job {})",
                     context.job.text(), *ours, newest[0].generation.value, *theirs,
                     newest[0].job.text());
}

Predecessors await_predecessors(const RunContext& context, Duration limit) {
  bool told = false;
  for (const Instant end = monotonic_now() + limit;; told = true) {
    const auto heard = heard_of(context, newest_starts(context, kLookedAt));
    if (!heard) return Predecessors::Gone;
    if (is_told_to_end(context)) return Predecessors::ToldToEnd;
    const bool enough = monotonic_now() >= end;
    if (!told || enough)
      std::fprintf(stderr, "stoker-agent: generation %u (job %s) is still heard%s\n",
                   heard->generation.value, heard->job.text().c_str(),
                   enough ? ": nothing was started here" : ": waiting until it has left");
    if (enough) return Predecessors::Heard;
  }
}

}  // namespace stoker::agent
