// LeadFile: one file of agent events (lead.jsonl, or agents/<node>.jsonl of an agent whose lead is
// gone) as inputs of the engine, each with its cursor. Beats of the lead are folded into digests;
// everything else is reported as it is. Damaged lines are skipped, counted and reported once. When
// the newest generation's lead stops writing, LeadSilent says so, at 10 s, 30 s, 2 min, 10 min and
// 1 h; absence counts from this process's first look. Of an older generation only late lines are
// reported.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "watch/digest_folder.hpp"
#include "watch/tail.hpp"

namespace stoker::watch {

struct LeadFileOptions {
  RunName run;
  Generation generation;
  std::string path;
  std::string from;  // "lead" or the node's name
  Duration interval = 30s;
  TailOptions tail;
};

// The newest beat as it was read: for showing, never for deciding.
struct LiveBeat {
  Generation generation;
  wire::Beat beat;
  Instant at;  // when it was read
};

class LeadFile {
 public:
  LeadFile(LeadFileOptions options, const std::optional<core::Cursor>& cursor);

  // New lines as inputs. `newest`: this generation is the run's newest.
  void poll(Instant now, bool newest, std::vector<core::Input>& out);
  // The digest in the making, if there is one.
  void flush(std::vector<core::Input>& out);
  // LeadSilent when its time has come. Call after poll, for the newest generation's lead only.
  void watch_silence(Instant now, std::vector<core::Input>& out);

  [[nodiscard]] bool more() const { return more_; }
  [[nodiscard]] const std::optional<LiveBeat>& live() const { return live_; }
  [[nodiscard]] Generation generation() const { return options_.generation; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  struct Told {  // with the folder's, the parser_state of the cursor
    FolderState folder;
    std::uint64_t damaged = 0;
    bool silent = false, over = false, late = false;
    STOKER_FIELDS(Told, folder, damaged, silent, over, late)
  };
  void take_line(const TailLine& line, Instant now, bool newest, std::vector<core::Input>& out);
  void take_event(wire::AgentEvent event, const TailLine& line, bool newest,
                  std::vector<core::Input>& out);
  void push(core::EventBody body, std::vector<core::Input>& out);
  void notice(const std::string& text, std::vector<core::Input>& out);

  LeadFileOptions options_;
  LineTail tail_;
  DigestFolder folder_;
  Told told_;
  core::Cursor behind_;  // behind the last line taken
  std::optional<Instant> heard_;
  std::optional<LiveBeat> live_;
  std::size_t next_threshold_ = 0;
  bool more_ = false;
  std::optional<Error> error_;
};

}  // namespace stoker::watch
