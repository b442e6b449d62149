// Courier: performs the sinks' requests, many at once. HTTP goes through libcurl's multi interface,
// on the one thread that calls; http and https only; no redirects; certificates are checked; of an
// answer at most 1 KiB is kept (of SMTP 16 KiB). Commands are children with a time limit. On a
// thread of its own goes what others can hold up: a mail (smtp, smtps), for libcurl waits for the
// answer to QUIT in the middle of its other work; a request for which it matters who listens on
// this host; and a file that is appended to, for its file system may not answer.
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
  void perform_apart(std::uint64_t id, const std::shared_ptr<Transfer>& transfer, Duration timeout);
  void poll(Duration timeout);
  std::unique_ptr<Impl> impl_;
  ExecRunner commands_;
  std::unique_ptr<Lanes<bool>> files_;                   // by their paths
  std::unique_ptr<Lanes<Answer>> apart_;                 // each in a lane of its own
  std::vector<std::pair<std::uint64_t, Answer>> ready_;  // answered while they were started
};

}  // namespace stoker::alerts
