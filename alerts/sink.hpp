// Sink: one way of telling people. A sink writes at once (a file), or says which HTTP request to
// make and judges its answer; the outbox makes all requests on one thread (http_sender.hpp) and
// retries. Adding a kind: one file sink_<kind>.cpp and one line of the table in sinks.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "alerts/render.hpp"

namespace stoker::alerts {

struct Delivered {};
struct Retry {
  std::string why;
  std::optional<Duration> after;  // as the receiver asked (Retry-After)
};
struct Refused {  // never tried again
  std::string why;
};
using Delivery = std::variant<Delivered, Retry, Refused>;

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;
  std::string body;
  Duration timeout = 10s;
};
struct HttpAnswer {
  long status = 0;    // 0: no answer
  std::string error;  // of the transport, when there is no answer
  std::string body;   // its first 1 KiB
  std::optional<Duration> retry_after;
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual std::variant<Delivery, HttpRequest> deliver(const RenderedAlert& alert) = 0;
  // 2xx delivered; no answer, 3xx, 5xx and what the receiver's side can mend (401, 403, 404, 407,
  // 408, 425, 429) are tried again; the rest is refused.
  virtual Delivery judge(const HttpAnswer& answer);
};

struct SinkOption {
  std::string name, meaning;
  bool required = false;
};
struct SinkKind {
  std::string kind;
  std::vector<SinkOption> options;
  // What cannot be said by single options: "either url or url_file". Null: nothing.
  Status (*check)(const core::SinkPolicy& policy) = nullptr;
  // `policy` passed check_sink. Errors: a secret's file that cannot be read, and the like.
  Result<std::unique_ptr<Sink>> (*make)(const core::SinkPolicy& policy) = nullptr;
};

// All kinds that a configuration may name.
const std::vector<SinkKind>& known_sinks();
// Refuses an unknown kind (with the known ones), an unknown option, a missing one, and values that
// the kind cannot take.
Status check_sink(const core::SinkPolicy& policy);
// check_sink, then make.
Result<std::unique_ptr<Sink>> make_sink(const core::SinkPolicy& policy);

SinkKind pulse_kind();    // sink_pulse.cpp
SinkKind webhook_kind();  // sink_webhook.cpp

}  // namespace stoker::alerts
