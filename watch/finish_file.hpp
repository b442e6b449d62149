// FinishFile: `train.finished: {file: DONE}` as an edge: a regular file of that name appeared, or
// is gone. A relative name counts from the run directory. Opened, never only stat'ed: network
// file systems cache attributes. Its first absence is not reported.
#pragma once

#include <string>
#include <vector>

#include "core/engine/engine.hpp"

namespace stoker::watch {

class FinishFile {
 public:
  // `cursors`: what was reported before the daemon restarted is not reported again.
  FinishFile(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors);

  void poll(std::vector<core::Input>& out);

 private:
  RunName run_;
  std::string path_;  // "" = this run does not end by a file
  std::string key_;   // of the cursor
  bool there_ = false;
};

}  // namespace stoker::watch
