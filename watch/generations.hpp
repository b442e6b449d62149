// Generations: finds the gen-* folders of a run directory and reads their agents' files: of the
// newest generation everything, of the two before it the late lines (evidence for fencing), of
// those that began while the daemon was away everything once. Older ones are left alone.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "watch/lead_file.hpp"

namespace stoker::watch {

struct GenerationsOptions {
  RunName run;
  std::string directory;  // of the run
  Duration interval = 30s;
  TailOptions tail;
};

class Generations {
 public:
  Generations(GenerationsOptions options, const std::vector<core::Cursor>& cursors);

  void poll(Instant now, std::vector<core::Input>& out);
  void flush(std::vector<core::Input>& out);
  // Of the newest generation's lead.
  [[nodiscard]] std::optional<LiveBeat> live() const;
  [[nodiscard]] bool more() const { return more_; }
  [[nodiscard]] Generation newest() const { return newest_; }
  // Folders whose changes are worth a look: the newest generation's and its agents'.
  [[nodiscard]] std::vector<std::string> directories() const;
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  using Key = std::pair<Generation, std::string>;  // "" = the lead
  void find(std::vector<core::Input>& out);
  void follow(Generation generation, const std::string& node);

  GenerationsOptions options_;
  std::map<std::string, core::Cursor> cursors_;  // by path, as the journal had them
  Generation read_before_;                       // newest generation with a cursor
  Generation newest_;
  std::map<Key, std::unique_ptr<LeadFile>> files_;
  bool more_ = false;
  std::optional<Error> error_;
};

}  // namespace stoker::watch
