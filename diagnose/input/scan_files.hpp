// Scans many logs on all cores; each file is independent of the others, and the answer is in the
// order of the inputs, no matter which finished first.
#pragma once

#include <string>
#include <vector>

#include "diagnose/input/log_file.hpp"

namespace stoker::diagnose {

struct ScanInput {
  std::string path;
  bool kernel_log = false;
  Links links = Links::All;
};

struct ScannedFiles {
  std::vector<ScannedLog> logs;  // Finding::file counts these
  std::vector<Error> errors;     // of files that could not be opened
};

// `threads` 0: one a core.
ScannedFiles scan_files(const Detector& detector, std::vector<ScanInput> inputs,
                        unsigned threads = 0);

}  // namespace stoker::diagnose
