// Trying sinks out: one test alert through each, past the outbox; or only what would be sent.
#pragma once

#include <string>
#include <vector>

#include "alerts/sink.hpp"

namespace stoker::alerts {

struct SinkTest {
  std::string sink, kind;
  bool ok = false;
  std::string detail;  // "delivered", or why not
  std::string shown;   // dry run: the request, of several lines, secrets masked
};

// Sends nothing.
std::vector<SinkTest> show_requests(const std::vector<core::SinkPolicy>& sinks);
// Sends; blocks up to a few seconds, independent of the sinks' time-outs.
std::vector<SinkTest> try_sinks(const std::vector<core::SinkPolicy>& sinks);

// A request for people, secrets masked. Exposed for tests.
std::string show(const Request& request);

}  // namespace stoker::alerts
