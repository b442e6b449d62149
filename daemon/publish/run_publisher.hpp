// RunPublisher: events.jsonl, chronicle.md and status.json of one run directory (or of the site, in
// <state>/published). The journal is the truth: each line carries its row's number, so after a kill
// the missing lines are made again from the rows, and none twice. Blocks on the file system of the
// run: its own thread calls it, never the loop.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/journal.hpp"
#include "core/publish/chronicle.hpp"
#include "daemon/publish/shared_history.hpp"
#include "wire/status.hpp"

namespace stoker::daemon {

class RunPublisher {
 public:
  // `run`: whose story chronicle.md has; empty = not written (the site).
  explicit RunPublisher(std::string directory, RunName run = {})
      : directory_(std::move(directory)),
        run_(run),
        history_(std::make_shared<SharedHistory>(run)),
        story_(std::move(run)) {}

  // Where events.jsonl ends; a torn last line (kill -9, full disk) is cut off.
  Status open();
  // For a journal that ends before last(), because it lost rows (an older copy, a damaged -wal):
  // what was published is kept as events.jsonl.lost-<seconds since 1970>, and the file starts over.
  Status start_over(WallTime now);
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] Sequence last() const { return last_; }
  // Rows behind this one are wanted: the story is built from the first row after each start.
  [[nodiscard]] Sequence wanted_after() const {
    return run_.empty() ? last_ : std::min(last_, story_.last_row());
  }
  // Appends those rows that are not there yet. `rows` ascend. An error leaves no torn line behind
  // that the next open() would not cut off; call open() again before the next append.
  Status append(const std::vector<core::JournalRow>& rows);
  Status write_status(const wire::StatusDocument& status);
  // What the last write_status() taught about room in the run directory, when it is not what
  // the document itself said (its condition disk_full): once two writes in a row found none, or
  // four found some.
  [[nodiscard]] std::optional<core::DiskFull> room_news() const { return room_news_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  // What can be drawn of the run; any thread may read it.
  [[nodiscard]] std::shared_ptr<const SharedHistory> history() const { return history_; }

 private:
  Status tell(const std::vector<core::JournalRow>& rows);
  Status write_chronicle();
  Status take_account(const wire::StatusDocument& status);

  std::string directory_;
  RunName run_;
  Sequence last_;
  std::shared_ptr<SharedHistory> history_;
  core::Chronicle story_;
  bool story_is_new_ = false;                   // not written yet
  std::optional<wire::StatusGoodput> account_;  // of the newest status, for the story
  bool open_ = false;
  int without_room_ = 0, with_room_ = 0;  // writes in a row
  std::optional<core::DiskFull> room_news_;
};

}  // namespace stoker::daemon
