// The end mark of a generation (wire/end_mark.hpp): read by a job's first act, and by the daemon,
// which reports it as EndSeen once: its lead may have died before it could say so.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "wire/end_mark.hpp"

namespace stoker::watch {

// Empty: no file. Error: there is one that does not count (os::find_own_file), or that is
// malformed or of another generation.
Result<std::optional<wire::EndMark>> read_end(const std::string& run_directory,
                                              Generation generation);

class EndFile {
 public:
  // `cursors`: what was reported before the daemon restarted is not reported again.
  EndFile(RunName run, std::string directory, const std::vector<core::Cursor>& cursors);

  void poll(Generation newest, std::vector<core::Input>& out);

 private:
  RunName run_;
  std::string directory_, key_;
  core::Cursor told_;  // line: the generation; head_hash: of what was wrong with it
};

}  // namespace stoker::watch
