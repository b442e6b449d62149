// Frames of the star.
#include "worker/agent/link/protocol.hpp"

#include <cstring>
#include <fmt/format.h>

namespace stoker::agent {
namespace {
constexpr std::size_t kHeader = 5;

std::size_t length_at(const std::string& bytes, std::size_t at) {
  unsigned char b[4];
  std::memcpy(b, bytes.data() + at, 4);
  return static_cast<std::size_t>(b[0]) | static_cast<std::size_t>(b[1]) << 8 |
         static_cast<std::size_t>(b[2]) << 16 | static_cast<std::size_t>(b[3]) << 24;
}
}  // namespace

std::string encode_frame(char kind, std::string_view content, std::string_view mac) {
  STOKER_CHECK(content.size() + mac.size() < kFrameLimit, "frame too large");
  const std::size_t n = content.size() + mac.size() + 1;
  std::string frame;
  frame.reserve(n + kHeader);
  for (int shift = 0; shift < 32; shift += 8)
    frame.push_back(static_cast<char>(static_cast<unsigned char>(n >> shift)));
  frame.push_back(kind);
  frame.append(content);
  frame.append(mac);
  return frame;
}

Status FrameReader::feed(std::string_view bytes) {
  if (begin_ > 0 && begin_ == pending_.size()) {
    pending_.clear();
    begin_ = 0;
  }
  pending_.append(bytes);
  if (pending_.size() - begin_ < kHeader) return ok();
  const std::size_t n = length_at(pending_, begin_);
  const char kind = pending_[begin_ + 4];
  if (n == 0 || n > limit_) return fail(fmt::format("frame of {} bytes", n));
  if (kind != 'h' && kind != 'j' && kind != 'l') return fail("frame of an unknown kind");
  return ok();
}

std::optional<Frame> FrameReader::next() {
  if (pending_.size() - begin_ < kHeader) return std::nullopt;
  const std::size_t n = length_at(pending_, begin_);
  if (n == 0 || n > limit_ || pending_.size() - begin_ < n + 4) return std::nullopt;
  Frame frame{pending_[begin_ + 4], pending_.substr(begin_ + kHeader, n - 1)};
  begin_ += n + 4;
  if (begin_ > (1u << 20)) {
    pending_.erase(0, begin_);
    begin_ = 0;
  }
  return frame;
}

}  // namespace stoker::agent
