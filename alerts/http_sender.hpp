// HttpSender: many HTTP requests at once on one thread, through libcurl's multi interface. Only
// http and https, no redirects, certificates are checked; of an answer at most 1 KiB is kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "alerts/sink.hpp"

namespace stoker::alerts {

class HttpSender {
 public:
  HttpSender();
  ~HttpSender();  // requests under way are given up
  HttpSender(const HttpSender&) = delete;
  HttpSender& operator=(const HttpSender&) = delete;

  // `id` comes back with the answer.
  void start(std::uint64_t id, const HttpRequest& request);
  // Works on the requests until one is answered, wake() is called, or `timeout` has passed.
  std::vector<std::pair<std::uint64_t, HttpAnswer>> wait(Duration timeout);
  void wake();  // from any thread
  [[nodiscard]] std::size_t under_way() const;

 private:
  struct Transfer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker::alerts
