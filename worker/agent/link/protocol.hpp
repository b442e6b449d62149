// The frames in which the messages of wire/node_messages.hpp travel over the star; an agent of
// another build is refused at the door. A frame: u32 length (little-endian, of the rest), u8 kind
// ('h' of the handshake, 'j' JSON of a message, 'l' merged log lines), content; after the handshake
// a MAC (seal.hpp). Frames are at most kFrameLimit bytes. The lead's own node uses the same
// messages by function calls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/json.hpp"
#include "wire/node_messages.hpp"

namespace stoker::agent {

inline constexpr std::size_t kFrameLimit = 8u << 20;

using wire::Benched;
using wire::BenchNode;
using wire::ChoosePort;
using wire::LeaveWith;
using wire::ListSnapshots;
using wire::NodeBeat;
using wire::NodeClear;
using wire::NodeCommand;
using wire::NodeEvent;
using wire::NodeReport;
using wire::Ping;
using wire::PortChosen;
using wire::RankGone;
using wire::RankSample;
using wire::SaveNow;
using wire::Signalled;
using wire::StacksDone;
using wire::StartRanks;
using wire::StopHow;
using wire::StopRanks;
using wire::TakeStacks;
using wire::Welcome;

struct Frame {
  char kind = 'j';
  std::string content;
};
std::string encode_frame(char kind, std::string_view content, std::string_view mac = {});

// Takes bytes as they come, gives whole frames. Error: a frame larger than the limit or of another
// kind; the connection is of no use then.
class FrameReader {
 public:
  explicit FrameReader(std::size_t limit = kFrameLimit) : limit_(limit) {}
  Status feed(std::string_view bytes);
  std::optional<Frame> next();
  void set_limit(std::size_t limit) { limit_ = limit; }

 private:
  std::size_t limit_;
  std::string pending_;
  std::size_t begin_ = 0;
};

}  // namespace stoker::agent
