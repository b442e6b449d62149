// RUN.yaml as a test writes it: read as /home/alice/run.yaml, and the error that one addition
// gives.
#pragma once

#include <doctest/doctest.h>
#include <string>

#include "configs/schema/run_schema.hpp"

namespace stoker::configs::testing {

inline const std::string kTrain = "run: hello\ntrain: {command: [train.py]}\n";  // the smallest

inline RunConfigFile read(const std::string& text) {
  RunSchemaContext context;
  context.file = "run.yaml";
  context.config_path = "/home/alice/run.yaml";
  context.state_directory = "/state";
  return read_run_config(text, context);
}

// The only error of the smallest file plus this text.
inline std::string error_of(const std::string& more) {
  const auto file = read(kTrain + more);
  REQUIRE_MESSAGE(file.errors.size() == 1, more);
  return file.errors[0].text();
}

}  // namespace stoker::configs::testing
