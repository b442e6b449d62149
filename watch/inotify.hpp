// Inotify: a hint that something changed below some folders, so that a poll need not wait. Never
// the truth: writers on other hosts cause no events, and watches may be refused; polling goes on.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/os/fd.hpp"

namespace stoker::watch {

class Inotify {
 public:
  Inotify();  // where the kernel gives none, fd() is -1 and nothing is ever hinted

  // Exactly these folders of `owner` from now on; those that do not exist are tried again at the
  // next call. True: each change in them is hinted, their own coming included.
  bool watch(const std::string& owner, const std::vector<std::string>& folders);
  [[nodiscard]] int fd() const { return fd_.get(); }  // readable: something changed
  // Whose folders had changes that a watcher may want to see.
  std::set<std::string> drain();

 private:
  void release(const std::string& owner, int number);
  void note(int number, std::set<std::string>& owners) const;

  os::Fd fd_;
  std::map<std::string, std::map<std::string, int>> watched_;  // by owner and folder
  std::map<int, std::set<std::string>> owners_;                // by the kernel's number
};

}  // namespace stoker::watch
