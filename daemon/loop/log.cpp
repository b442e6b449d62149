// Log: three forms of the same line.
#include "daemon/loop/log.hpp"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "common/json.hpp"
#include "common/printable.hpp"

namespace stoker::daemon {
namespace {

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::Error: return "error";
    case LogLevel::Warning: return "warning";
    case LogLevel::Notice: return "notice";
    case LogLevel::Info: return "info";
  }
  return "";
}

std::string in_form(LogLevel level, std::string_view text) {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  static const bool systemd = std::getenv("JOURNAL_STREAM") != nullptr;
  const std::string clean = printable(text);
  const std::string now = format_rfc3339(wall_now(), true);
  if (systemd) return fmt::format("<{}>{}\n", static_cast<int>(level), clean);
  if (terminal)
    return fmt::format("stokerd {} {}{}\n", now.substr(11, 8),
                       level <= LogLevel::Warning ? fmt::format("{}: ", level_name(level)) : "",
                       clean);
  return dump_json({{"time", now}, {"level", level_name(level)}, {"message", clean}}) + "\n";
}

// Lives as long as the process: its thread may be asleep in the kernel.
class Lines {
 public:
  static Lines& of_process() {
    static auto* const kept = new Lines;
    return *kept;
  }

  void put(std::string line) {
    std::unique_lock lock(mutex_);
    if (waiting_.size() >= kMost) {
      ++lost_;
      return;
    }
    if (lost_ > 0)
      waiting_.push_back(
          in_form(LogLevel::Warning, fmt::format("{} lines were lost here: the log could not be "
                                                 "written",
                                                 std::exchange(lost_, 0))));
    waiting_.push_back(std::move(line));
    const std::uint64_t mine = written_ + waiting_.size();
    news_.notify_all();
    if (!stuck_)
      stuck_ = !news_.wait_for(lock, kPatience, [this, mine] { return written_ >= mine; });
  }

  void flush() {
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, kPatienceAtEnd, [this] { return waiting_.empty(); });
  }

 private:
  static constexpr std::size_t kMost = 10'000;
  static constexpr std::chrono::milliseconds kPatience{50}, kPatienceAtEnd{2000};

  Lines() {
    std::thread([this] { write_all(); }).detach();
  }

  [[noreturn]] void write_all() {
    for (std::unique_lock lock(mutex_);;) {
      news_.wait(lock, [this] { return !waiting_.empty(); });
      const std::string& line = waiting_.front();  // a deque's elements stay where they are
      lock.unlock();
      [[maybe_unused]] const auto size = ::write(STDERR_FILENO, line.data(), line.size());
      lock.lock();
      waiting_.pop_front();
      ++written_;
      stuck_ = stuck_ && !waiting_.empty();
      news_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::string> waiting_;  // the first is being written
  std::uint64_t written_ = 0, lost_ = 0;
  bool stuck_ = false;  // until all is written
};

}  // namespace

void log(LogLevel level, std::string_view text) {
  Lines::of_process().put(in_form(level, text));
}

void flush_log() {
  Lines::of_process().flush();
}

}  // namespace stoker::daemon
