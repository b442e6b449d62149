// FinishFile: `train.finished: {file: DONE}` as an edge: a regular file of that name appeared, or
// is gone. A relative name counts from the run directory. Opened, never only stat'ed: network
// file systems cache attributes. Its first absence is not reported.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "core/engine/engine.hpp"

namespace stoker::watch {

// Whether the file that ends a training is there: a regular file of ours or root's with one name,
// to which no other user's link leads. Who may write in its folder can move another file of ours
// there. Errors: is_refusal(), it does not count; it cannot be opened.
Result<bool> is_finish_file(const std::string& path);

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
  std::string refused_;  // what was reported of a file that does not count
};

}  // namespace stoker::watch
