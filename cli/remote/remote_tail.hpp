// RemoteTail: a remote file that grows, as lines. What is new is asked for together with the bytes
// in front of it: when these differ, the file was replaced; when they are missing, it was cut
// off. Decides; who asks the network is given.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/remote/http_range.hpp"

namespace stoker::cli {

class RemoteTail {
 public:
  using Get = std::function<RangeAnswer(const RangeRequest&)>;
  struct Line {
    std::uint64_t offset = 0;  // in the file
    std::string text;
  };
  struct News {
    std::vector<Line> lines;
    std::vector<std::string> said;  // what a person should know, once each
    std::string error;              // this poll failed; it may be tried again
    bool hopeless = false;          // …and it will not help
    bool more = false;              // there is more: poll again at once
    std::optional<Duration> wait;   // the server asks for this
  };

  RemoteTail(Get get, std::uint64_t last_lines) : get_(std::move(get)), last_lines_(last_lines) {}

  News poll();
  // The last line without its newline, when nothing more is waited for.
  std::vector<Line> rest();

 private:
  RangeAnswer ask(std::optional<std::uint64_t> from, std::uint64_t bytes, bool if_changed);
  News first();
  void take(std::string_view bytes, News& news);
  void start_again(const std::string& why, News& news);
  static bool failed(const RangeAnswer& answer, News& news);

  Get get_;
  std::uint64_t last_lines_;
  bool begun_ = false, told_whole_ = false;
  std::uint64_t offset_ = 0;  // of the next byte
  std::string before_;        // the bytes in front of it, at most kOverlap
  std::string pending_;       // of them and before, the beginning of a line
  std::string etag_, modified_;
};

}  // namespace stoker::cli
