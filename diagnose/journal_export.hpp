// journald's export format (`journalctl -o export`) as lines of a log: one line an entry, "host
// kernel: message" for the kernel's and "host program: message" for the others. Hostile input:
// fields that are not needed are not kept, binary ones are skipped by their length.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace stoker::diagnose {

// True when a file that begins so is an export.
bool is_journal_export(std::string_view head);

class JournalExport {
 public:
  // Calls `take` with the line of each entry that is complete; an empty line ends an entry.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& take);

 private:
  void field(std::string_view line);
  void end_of_entry(const std::function<void(std::string_view)>& take);
  std::string held_;
  std::string time_, host_, program_, message_;
  bool kernel_ = false;
};

}  // namespace stoker::diagnose
