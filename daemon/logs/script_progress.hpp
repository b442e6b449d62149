// ScriptProgress: what the lines of a script's logs say of its progress, for watch::ScriptBeats,
// which folds it. Of two logs with the same iterations one leads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/parse/progress_reader.hpp"
#include "watch/script_beats.hpp"

namespace stoker::daemon {

class ScriptProgress {
 public:
  ScriptProgress(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors);

  // The generation whose job runs; 0 = none does.
  void set_generation(Generation live, Instant now, WallTime wall);
  // `source`: the log's path.
  void line(const std::string& source, std::string_view text, Instant now, WallTime wall);

  // As ScriptBeats.
  std::optional<core::Digest> poll(Instant now, bool at_once) { return beats_.poll(now, at_once); }
  [[nodiscard]] core::Cursor cursor() const { return beats_.cursor(); }

  // Why watch.progress cannot be used; "" = it can.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  std::string error_;
  diagnose::ProgressReader reader_;
  watch::ScriptBeats beats_;
  std::string leader_;
  Instant leader_at_;
};

}  // namespace stoker::daemon
