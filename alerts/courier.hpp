// Courier: performs the sinks' requests, many at once, on the one thread that calls it. HTTP and
// SMTP go through libcurl's multi interface: http, https, smtp, smtps only; no redirects;
// certificates are checked; of an answer at most 1 KiB is kept (of SMTP 16 KiB). Commands are
// children with a time limit. A file is appended to on a thread of its own, for its file system may
// not answer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "alerts/exec_runner.hpp"
#include "alerts/sink.hpp"
#include "common/lanes.hpp"

namespace stoker::alerts {

class Courier {
 public:
  Courier();
  ~Courier();  // requests under way are given up
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // `id` comes back with the answer.
  void start(std::uint64_t id, const Request& request);
  // Works on the requests until one is answered, wake() is called, or `timeout` has passed.
  std::vector<std::pair<std::uint64_t, Answer>> wait(Duration timeout);
  void wake();  // from any thread
  [[nodiscard]] std::size_t under_way() const;

 private:
  struct Transfer;
  struct Impl;
  void send(std::uint64_t id, const HttpRequest& request);
  void send(std::uint64_t id, const MailRequest& request);
  void add(std::unique_ptr<Transfer> transfer);
  void poll(Duration timeout);
  std::unique_ptr<Impl> impl_;
  ExecRunner commands_;
  std::unique_ptr<Lanes<bool>> files_;                   // by their paths
  std::vector<std::pair<std::uint64_t, Answer>> ready_;  // answered while they were started
};

}  // namespace stoker::alerts
