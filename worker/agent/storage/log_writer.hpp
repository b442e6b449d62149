// Writes log files in a thread of its own, so that a full, slow or hanging disk never blocks the
// training: the queue is bounded; when it is full the oldest is dropped and counted (the newest
// lines tell why a rank died), and the count is written as a line of its own in its place. Files
// are bounded: at `file_limit` bytes a file becomes "<name>.1" (the older one goes) and a new one
// begins.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "common/os/fd.hpp"
#include "common/time.hpp"

namespace stoker::agent {

struct LogLimits {
  std::size_t queue_bytes = 16u << 20;
  std::uint64_t file_bytes = 4ull << 30;
};

class LogWriter {
 public:
  // `notice` is called from the writer's thread, once when dropping begins and once when it ends.
  using Notice = std::function<void(const std::string&)>;
  LogWriter(LogLimits limits, Notice notice);
  ~LogWriter();  // waits at most 2 s for what is queued
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Never blocks on a disk. Bytes of one path keep their order.
  void append(const std::string& path, std::string_view bytes);
  // Waits until all is written, at most `limit`.
  bool flush(Duration limit);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;  // the thread may outlive us inside a hanging write
};

}  // namespace stoker::agent
