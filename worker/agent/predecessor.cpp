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

// Heard within the time in which a living lead writes thrice.
bool lives(const RunContext& context, const wire::Start& start) {
  const std::string directory = generation_directory(context, start.generation);
  if (said_goodbye(directory)) return false;
  const off_t before = words_of(directory);
  const Duration silence = std::max<Duration>(2s, 3 * wire::beat_every(start.orders.hang_floor));
  for (const Instant end = monotonic_now() + silence; monotonic_now() < end;) {
    if (words_of(directory) > before) return !said_goodbye(directory);
    std::this_thread::sleep_for(kLook);
  }
  return false;
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
  const auto newest = newest_start(context);
  const auto ours = order_of(context.token, context.run);
  const auto theirs = newest ? order_of(newest->token, context.run) : std::nullopt;
  if (!ours || !theirs || *ours >= *theirs) return std::nullopt;
  if (!lives(context, *newest)) return std::nullopt;
  return fmt::format("job {} of order {} comes late: generation {} is of order {} (job {})",
                     context.job.text(), *ours, newest->generation.value, *theirs,
                     newest->job.text());
}

std::optional<std::string> await_predecessor(const RunContext& context, Duration limit) {
  const auto newest = newest_start(context);
  if (!newest) return std::nullopt;
  const std::string who = fmt::format("generation {} (job {}) is still heard",
                                      newest->generation.value, newest->job.text());
  bool told = false;
  for (const Instant end = monotonic_now() + limit; lives(context, *newest); told = true) {
    if (is_told_to_end(context)) return std::nullopt;
    if (monotonic_now() >= end) return fmt::format("{} after {}", who, format_duration(limit));
    if (!told) std::fprintf(stderr, "stoker-agent: %s: waiting until it has left\n", who.c_str());
  }
  return std::nullopt;
}

}  // namespace stoker::agent
