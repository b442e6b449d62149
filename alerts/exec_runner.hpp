// ExecRunner: commands of exec sinks as children: the document on standard input, a time limit, the
// last lines of standard error kept. Nothing here blocks: its driver polls the descriptors, and
// env(1) executes the command, whose file system may not answer.
// A child dies with the thread that started it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "alerts/sink.hpp"
#include "common/os/process.hpp"

namespace stoker::alerts {

class ExecRunner {
 public:
  ExecRunner() = default;
  ~ExecRunner();  // kills what still runs
  ExecRunner(const ExecRunner&) = delete;
  ExecRunner& operator=(const ExecRunner&) = delete;

  // Error: it cannot be executed.
  Status start(std::uint64_t id, const ExecRequest& request);
  // Descriptors that become readable when there is something to do.
  [[nodiscard]] std::vector<int> descriptors() const;
  // Until the next time limit; at most `longest`.
  [[nodiscard]] Duration patience(Duration longest) const;
  // Reads, enforces the limits, reaps: the answers of what ended.
  std::vector<std::pair<std::uint64_t, Answer>> collect();
  [[nodiscard]] std::size_t under_way() const { return running_.size(); }

 private:
  struct Running {
    std::uint64_t id = 0;
    os::Child child;
    os::Fd words;  // read end of its standard error
    std::string said;
    Instant deadline;
    Duration limit{};
    int signals = 0;  // sent for its time limit: TERM, then KILL
  };
  static void read_words(Running& running);
  std::vector<Running> running_;
  std::vector<os::Child> left_;  // killed, and asleep in the kernel: to be reaped when they wake
};

}  // namespace stoker::alerts
