// RestDoor: one request to slurmrestd and its answer, good or bad. The real one is HttpDoor
// (http_door.hpp); tests have scripted ones.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::slurm {

struct RestRequest {
  std::string method, path, body;  // path: with its query
  Duration limit;                  // of the whole exchange
};

struct RestAnswer {
  long status = 0;
  std::string error;    // one clause: why there is no whole answer; "" = there is one
  bool reached = true;  // false: the server has not seen the request
  std::string body;     // of an answer that `take` did not get
};

class RestDoor {
 public:
  virtual ~RestDoor() = default;
  // The body of a 200 goes to `take`, as it arrives, where there is one; false ends the exchange.
  // Any thread.
  using Take = std::function<bool(std::string_view)>;
  virtual RestAnswer ask(const RestRequest& request, const Take& take) = 0;
  [[nodiscard]] virtual std::string name() const = 0;  // for messages
};

}  // namespace stoker::slurm
