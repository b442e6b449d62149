// The log thread: takes pieces of the queue in order and writes them.
#include "worker/agent/storage/log_writer.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/agent/aside.hpp"

namespace stoker::agent {
namespace {
constexpr std::size_t kJoinBytes = 256u << 10;  // neighbours of one file are joined up to here
constexpr std::size_t kRoundBytes = 4u << 20;   // taken out of the queue and written in one go
}  // namespace

struct LogWriter::State {
  LogLimits limits;
  Notice notice;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<std::string, std::string>> queue;  // path, bytes
  std::size_t queued = 0;
  std::map<std::string, std::uint64_t> dropped;  // bytes by path, not yet reported
  bool busy = false, stopping = false;

  // Of the thread alone:
  struct File {
    os::Fd fd;
    std::uint64_t size = 0;
  };
  std::map<std::string, File> files;
  bool failing = false;

  bool open(const std::string& path, File& file) const {
    file.fd =
        os::Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
    struct stat info {};
    if (!file.fd || ::fstat(file.fd.get(), &info) != 0) return false;
    file.size = static_cast<std::uint64_t>(info.st_size);
    return true;
  }

  // Bytes that could not be written.
  std::size_t write(const std::string& path, std::string_view bytes) {
    File& file = files[path];
    if (file.fd && file.size > 0 && file.size + bytes.size() > limits.file_bytes) {
      ::rename(path.c_str(), (path + ".1").c_str());
      file.fd.reset();
    }
    if (!file.fd && !open(path, file)) return bytes.size();
    while (!bytes.empty()) {
      const ssize_t n = ::write(file.fd.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return bytes.size();
      file.size += static_cast<std::uint64_t>(n);
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return 0;
  }

  void set_failing(bool now_failing, const std::string& why) {
    if (failing != now_failing && notice) notice(why);
    failing = now_failing;
  }
};

LogWriter::LogWriter(LogLimits limits, Notice notice) : state_(std::make_shared<State>()) {
  state_->limits = limits;
  state_->notice = std::move(notice);
  run_aside([state = state_] { run(state); });
}

LogWriter::~LogWriter() {
  flush(2s);
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->notice = nullptr;
  state_->changed.notify_all();
}

void LogWriter::append(const std::string& path, std::string_view bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->queued += bytes.size();
  auto& queue = state_->queue;
  if (!queue.empty() && queue.back().first == path && queue.back().second.size() < kJoinBytes)
    queue.back().second.append(bytes);
  else
    queue.emplace_back(path, std::string(bytes));
  while (state_->queued > state_->limits.queue_bytes && queue.size() > 1) {
    state_->dropped[queue.front().first] += queue.front().second.size();
    state_->queued -= queue.front().second.size();
    queue.pop_front();
  }
  state_->changed.notify_all();
}

bool LogWriter::flush(Duration limit) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, limit,
                                  [this] { return state_->queue.empty() && !state_->busy; });
}

void LogWriter::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->stopping || !state->queue.empty(); });
    if (state->queue.empty()) return;
    std::deque<std::pair<std::string, std::string>> work;
    for (std::size_t taken = 0; taken < kRoundBytes && !state->queue.empty();) {
      taken += state->queue.front().second.size();
      work.push_back(std::move(state->queue.front()));
      state->queue.pop_front();
      state->queued -= work.back().second.size();
    }
    auto dropped = std::move(state->dropped);
    state->dropped.clear();
    state->busy = true;
    lock.unlock();
    std::map<std::string, std::uint64_t> lost;
    for (const auto& [path, count] : dropped) {
      const std::string line = fmt::format("\n[stoker: {} bytes of output dropped here]\n", count);
      if (state->write(path, line) > 0) lost[path] += count;
    }
    bool failed = false;
    for (const auto& [path, bytes] : work) {
      const std::size_t missing = state->write(path, bytes);
      if (missing > 0) lost[path] += missing;
      if (missing > 0) failed = true;
    }
    const std::string why =
        failed ? fmt::format("cannot write {}: output is dropped and counted", lost.begin()->first)
               : std::string("output is written again");
    lock.lock();
    for (const auto& [path, count] : lost) state->dropped[path] += count;
    state->busy = false;
    state->set_failing(failed, why);
    state->changed.notify_all();
  }
}

}  // namespace stoker::agent
