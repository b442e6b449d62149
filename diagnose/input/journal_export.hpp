// journald's exports (`journalctl -o export`, `-o json`) as lines of a log: one line an entry,
// "host kernel: message" for the kernel's and "host program: message" for the others. Hostile
// input: fields that are not needed are not kept, binary ones are skipped by their length, and a
// message of several lines is one, for its second could pass for the kernel's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace stoker::diagnose {

enum class JournalForm { None, Export, Json };
// Of a file that begins so.
JournalForm journal_form(std::string_view head);

class JournalExport {
 public:
  explicit JournalExport(JournalForm form) : form_(form) {}
  // Calls `take` with the line of each entry that is complete; an empty line ends an entry.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& take);

 private:
  void feed_fields(const std::function<void(std::string_view)>& take);
  void feed_objects(const std::function<void(std::string_view)>& take);
  void field(std::string_view name, std::string_view value);
  void end_of_entry(const std::function<void(std::string_view)>& take);
  JournalForm form_;
  std::string held_;
  std::string time_, host_, program_, message_;
  bool kernel_ = false;
};

}  // namespace stoker::diagnose
