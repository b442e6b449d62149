// RUN.yaml as a test writes it: read as /home/alice/run.yaml, and the error that one addition
// gives.
#pragma once

#include <doctest/doctest.h>
#include <string>

#include "configs/schema/run_schema.hpp"

namespace stoker::configs::testing {

inline const std::string kTrain = "run: hello\ntrain: {command: [train.py]}\n";  // the smallest

// What the daemon knows beside the file: where it lies, and the kinds of sinks.
inline RunSchemaContext context() {
  RunSchemaContext c;
  c.file = "run.yaml";
  c.config_path = "/home/alice/run.yaml";
  c.state_directory = "/state";
  c.sinks = {{"pulse", {}, {"path"}}, {"webhook", {"url"}, {"headers", "token_file"}}};
  return c;
}

inline RunConfigFile read(const std::string& text) {
  return read_run_config(text, context());
}

// The only error of the smallest file plus this text.
inline std::string error_of(const std::string& more) {
  const auto file = read(kTrain + more);
  REQUIRE_MESSAGE(file.errors.size() == 1, more);
  return file.errors[0].text();
}

}  // namespace stoker::configs::testing
