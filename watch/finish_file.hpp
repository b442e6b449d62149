// FinishFile: `train.finished: {file: DONE}` as an edge: a regular file of that name appeared, or
// is gone. A relative name counts from the run directory. Opened, never only looked at: network
// file systems cache attributes. Its first absence is not told.
#pragma once

#include <string>
#include <vector>

#include "core/engine.hpp"

namespace stoker::watch {

class FinishFile {
 public:
  // `cursors`: what was told before the daemon restarted is not told again.
  FinishFile(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors);

  void poll(std::vector<core::Input>& out);

 private:
  RunName run_;
  std::string path_;  // "" = this run does not end by a file
  std::string key_;   // of the cursor
  bool there_ = false;
};

}  // namespace stoker::watch
