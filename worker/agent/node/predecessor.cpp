#include "worker/agent/node/predecessor.hpp"

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
#include "common/printable.hpp"
#include "wire/agent_event.hpp"
#include "worker/agent/link/follower.hpp"
#include "worker/agent/switch_process.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kLook = 100ms;
constexpr Duration kShortSilence = 2s;  // of generations that were waited for already
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

// Of the agent that writes this file: every process below it is gone.
bool said_goodbye(const std::string& path) {
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
  return event && std::holds_alternative<wire::Goodbye>(event->body);
}

// Agents without a lead write nothing until they give it up.
Duration longest_silence(const wire::Start& start, const std::string& directory) {
  const Duration beats = std::max<Duration>(2s, 3 * wire::beat_every(start.orders.hang_floor));
  const bool orphans = std::any_of(start.nodes.begin(), start.nodes.end(), [&](const auto& node) {
    return node != start.lead &&
           !said_goodbye(fmt::format("{}/agents/{}.jsonl", directory, node.text));
  });
  return orphans ? beats + kLeadReturns : beats;
}

// Of these the first that is heard before it was silent for long enough. All but the first, the
// newest, were waited for when that one began.
std::optional<wire::Start> heard_of(const RunContext& context, std::vector<wire::Start> starts) {
  const auto directory = [&](const wire::Start& start) {
    return generation_directory(context, start.generation);
  };
  const auto is_over = [&](const wire::Start& start) {
    return said_goodbye(directory(start) + "/lead.jsonl");
  };
  if (starts.empty()) return std::nullopt;
  const wire::Start newest = starts.front();
  std::erase_if(starts, is_over);
  std::vector<off_t> before;
  for (const wire::Start& start : starts) before.push_back(words_of(directory(start)));
  const Instant began = monotonic_now();
  const auto silence = [&] {
    return is_over(newest) ? kShortSilence : longest_silence(newest, directory(newest));
  };
  while (!starts.empty() && monotonic_now() - began < silence()) {
    for (std::size_t i = 0; i < starts.size(); ++i)
      if (words_of(directory(starts[i])) > before[i] && !is_over(starts[i])) return starts[i];
    std::this_thread::sleep_for(kLook);
  }
  return std::nullopt;
}

bool is_told_to_end(const RunContext& context) {
  sigset_t pending;
  ::sigpending(&pending);
  for (const int signal : {SIGTERM, SIGINT})
    if (::sigismember(&pending, signal) == 1) return true;
  const auto seen = read_end_switch(context.run_directory, 1s);
  return seen && *seen;
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
      tell_stderr(
          fmt::format("stoker-agent: generation {} (job {}) is still heard{}",
                      heard->generation.value, heard->job.text(),
                      enough ? ": nothing was started here" : ": waiting until it has left"));
    if (enough) return Predecessors::Heard;
  }
}

}  // namespace stoker::agent
