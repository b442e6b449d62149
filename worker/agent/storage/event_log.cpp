// The event thread.
#include "worker/agent/storage/event_log.hpp"

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>

#include "common/os/files.hpp"
#include "common/printable.hpp"
#include "worker/agent/aside.hpp"

namespace stoker::agent {
namespace {

constexpr std::size_t kQueueLimit = 10000;  // Beats are dropped beyond
constexpr Duration kRetry = 1s;

struct Line {
  std::string text;
  bool edge = true;
};

}  // namespace

struct EventLog::State {
  std::string path;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Line> queue;
  bool busy = false, stopping = false, last_failed = false;

  // One write for a run of lines would break "one line one write(2)" for readers of a remote file.
  bool write_line(const Line& line) {
    const auto durability = line.edge ? os::Durability::Synced : os::Durability::Cached;
    // After a failed write the file may end inside a line: begin a new one.
    // Mode 0600: a user who can read the file can block writes to it (watch/part.hpp).
    const auto written =
        os::append_file(path, last_failed ? "\n" + line.text : line.text, durability, 0600);
    if (!written && !last_failed) tell_stderr("stoker-agent: " + written.error().message());
    last_failed = !written;
    return written.has_value();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || !queue.empty(); });
      if (queue.empty()) return;
      const Line line = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      const bool written = write_line(line);
      lock.lock();
      busy = false;
      if (!written && line.edge) {
        queue.push_front(line);
        changed.wait_for(lock, kRetry, [this] { return stopping; });
        if (stopping) return;
      }
      changed.notify_all();
    }
  }
};

EventLog::EventLog(std::string path) : state_(std::make_shared<State>()) {
  state_->path = std::move(path);
  run_aside([state = state_] { state->run(); });
}

EventLog::~EventLog() {
  flush(5s);
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
}

void EventLog::write(wire::AgentBody body) {
  wire::AgentEvent event;
  event.at = monotonic_now();
  event.wall = wall_now();
  event.body = std::move(body);
  Line line;
  line.edge = !std::holds_alternative<wire::Beat>(event.body) &&
              !std::holds_alternative<wire::Notice>(event.body);
  line.text = wire::format_event_line(event);
  const std::lock_guard lock(state_->mutex);
  if (!line.edge && state_->queue.size() > kQueueLimit) return;
  state_->queue.push_back(std::move(line));
  state_->changed.notify_all();
}

bool EventLog::flush(Duration limit) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, limit,
                                  [this] { return state_->queue.empty() && !state_->busy; });
}

}  // namespace stoker::agent
