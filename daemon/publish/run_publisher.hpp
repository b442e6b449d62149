// RunPublisher: events.jsonl, chronicle.md and status.json of one run directory (or of the site, in
// <state>/published). The journal is the truth: each line carries its row's number, so after a kill
// the missing lines are made again from the rows, and none twice. Blocks on the file system of the
// run: its own thread calls it, never the loop.
#pragma once

#include <string>
#include <vector>

#include "core/journal.hpp"
#include "wire/status.hpp"

namespace stoker::daemon {

// The line of the chronicle for a row; "" = the row is no incident. Ends with its row's number.
std::string chronicle_line(const core::JournalRow& row);

class RunPublisher {
 public:
  explicit RunPublisher(std::string directory) : directory_(std::move(directory)) {}

  // Where events.jsonl ends; a torn last line (kill -9, full disk) is cut off.
  Status open();
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] Sequence last() const { return last_; }
  // Appends those rows that are not there yet. `rows` ascend. An error leaves no torn line behind
  // that the next open() would not cut off; call open() again before the next append.
  Status append(const std::vector<core::JournalRow>& rows);
  Status write_status(const wire::StatusDocument& status) const;
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  Status append_chronicle(const std::vector<core::JournalRow>& rows);

  std::string directory_;
  Sequence last_, last_chronicle_;
  bool open_ = false;
};

}  // namespace stoker::daemon
