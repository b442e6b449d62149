// Line splitting and the block-buffering verdict.
#include "worker/agent/rank/output.hpp"

#include <algorithm>

namespace stoker::agent {

void LineSplitter::feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      after_return_ = false;
      continue;
    }
    after_return_ = false;
    const auto end = std::min(bytes.find('\n'), bytes.find('\r'));
    const auto piece = bytes.substr(0, end);
    const std::size_t room = limit_ - pending_.size();
    if (piece.size() > room) {
      pending_.append(piece.substr(0, room));
      sink(pending_);
      pending_.clear();
      ++cut_;
      bytes.remove_prefix(room);
      continue;
    }
    if (end == std::string_view::npos) {
      pending_.append(piece);
      return;
    }
    if (pending_.empty()) {
      sink(piece);
    } else {
      pending_.append(piece);
      sink(pending_);
      pending_.clear();
    }
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::finish(const Sink& sink) {
  if (!pending_.empty()) sink(pending_);
  pending_.clear();
}

void BufferingDetector::end_burst() {
  if (burst_ == 0) return;
  if (burst_ % 4096 == 0 && gap_before_) {
    ++blocks_;
    if (last_byte_ != '\n') cut_inside_ = true;
  } else {
    blocks_ = 0;
    cut_inside_ = false;
  }
  burst_ = 0;
}

void BufferingDetector::feed(std::string_view bytes, Instant now) {
  if (bytes.empty() || block_buffered()) return;
  const Duration gap = now - last_;
  if (gap > 50ms) {
    end_burst();
    gap_before_ = gap >= 1s;
  }
  last_ = now;
  burst_ += bytes.size();
  last_byte_ = bytes.back();
}

}  // namespace stoker::agent
