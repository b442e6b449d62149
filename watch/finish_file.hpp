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
// in a folder where no other user can put files, to which no other user's link leads. Who may put
// files there could move another file of ours to this name. Errors: is_refusal(), it does not
// count, or would not if it were there; it cannot be opened.
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
