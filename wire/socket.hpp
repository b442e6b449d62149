// The daemon's control socket (<state>/stokerd.sock, 0660, SO_PEERCRED): one JSON line asked, one
// JSON line answered, then the connection closes. At most 1 MiB a line, 5 s a connection. Who asked
// is reported by the kernel, not by the line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::wire {

struct Request {
  int version = 1;
  std::string verb;  // run save stop pause resume restart rollback exclude include stacks ack
                     // silence alerts-test ping reload
  std::string run;
  std::string reason;
  std::map<std::string, std::string> arguments;  // by flag name: {"to": "1200", "lr-scale": "0.75"}
  std::vector<std::string> nodes;
  std::string text;  // RUN.yaml's content for `run`, with its path in arguments["path"]
  bool dry_run = false;
  STOKER_FIELDS(Request, version, verb, run, reason, arguments, nodes, text, dry_run)
};

struct Response {
  int version = 1;
  bool ok = false;
  std::string message;  // one line: what was or would be done, or the error
  Json data;
  STOKER_FIELDS(Response, version, ok, message, data)
};

}  // namespace stoker::wire
