// Inotify: a hint that something changed below some folders, so that a poll need not wait. Never
// the truth: writers on other hosts cause no events, and watches may be refused; polling goes on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/os/fd.hpp"

namespace stoker::watch {

class Inotify {
 public:
  Inotify();  // where the kernel gives none, fd() is -1 and nothing is ever hinted

  // Exactly these folders from now on; those that do not exist are tried again at the next call.
  void watch(const std::vector<std::string>& directories);
  [[nodiscard]] int fd() const { return fd_.get(); }  // readable: something changed
  bool drain();  // true: something had changed that a watcher may want to see

 private:
  os::Fd fd_;
  std::map<std::string, int> watched_;
};

}  // namespace stoker::watch
