// Accepting, and what happens to strangers.
#include "worker/agent/link/door.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/os/random.hpp"
#include "worker/agent/link/seal.hpp"

namespace stoker::agent {
namespace {

// In one turn: fewer than kStrangers, so that each is heard once before it can be the oldest.
constexpr int kAcceptsPerTurn = 32;
constexpr Duration kPause = 200ms;
constexpr Duration kSweepEvery = 1s;
constexpr rlim_t kReserve = 256;  // descriptors

// A new descriptor is the lowest free one: its number says how many are in use.
bool spares_descriptors(int fd) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return true;
  const rlim_t reserve = std::min(kReserve, limit.rlim_cur / 4);
  return static_cast<rlim_t>(fd) < limit.rlim_cur - reserve;
}

// The soft limit of many hosts is 1024: enough for some hundred followers.
void raise_limit(std::size_t followers) {
  rlimit limit{};
  const rlim_t need = (followers + Door::kStrangers) * 4 / 3 + kReserve;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need) return;
  limit.rlim_cur = std::min(need, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string text_of(const sockaddr_in& address) {
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

}  // namespace

Door::Door(Wiring wiring, std::string secret)
    : wiring_(std::move(wiring)), secret_(std::move(secret)) {}

Door::~Door() {
  *alive_ = false;
  wiring_.loop.cancel(sweep_timer_);
  wiring_.loop.cancel(rest_timer_);
  if (listener_.socket) wiring_.loop.forget(listener_.socket.get());
}

Status Door::open(const std::string& address, std::size_t followers) {
  raise_limit(followers);
  STOKER_TRY(listener, listen_tcp(address));
  listener_ = std::move(listener);
  if (!listener_.note.empty()) wiring_.notice(listener_.note);
  wiring_.loop.watch(listener_.socket.get(), POLLIN, [this](short) { on_ready(); });
  sweep();
  return ok();
}

void Door::on_ready() {
  for (int i = 0; i < kAcceptsPerTurn; ++i)
    if (!accept_one()) return;
}

bool Door::accept_one() {
  sockaddr_in from{};
  socklen_t size = sizeof from;
  os::Fd fd(::accept4(listener_.socket.get(), reinterpret_cast<sockaddr*>(&from), &size,
                      SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) return false;
  if (!fd) return rest(), false;
  const Instant now = monotonic_now();
  const std::string peer = text_of(from);
  if (!spares_descriptors(fd.get())) {
    refusals_.add("no descriptor to spare", peer, now);
    return true;
  }
  make_room();
  const Id id = next_++;
  Link::Events events;
  events.frame = [this, id](const Frame& frame) { on_frame(id, frame); };
  events.broken = [this, alive = alive_, id](const Link::Broken& broken) {
    if (*alive) refuse(id, broken.foreign ? "not of this protocol" : "left");
  };
  auto link = std::make_unique<Link>(wiring_.loop, std::move(fd), std::move(events), kHelloLimit);
  strangers_.emplace(
      id,
      Stranger{std::move(link), LeadHandshake(secret_, os::random_bytes(kNonceBytes), now), peer});
  return true;
}

// No descriptor is left, say: the connection stays in the queue and poll would return at once.
void Door::rest() {
  wiring_.loop.forget(listener_.socket.get());
  rest_timer_ = wiring_.loop.after(kPause, [this] {
    wiring_.loop.watch(listener_.socket.get(), POLLIN, [this](short) { on_ready(); });
  });
}

// The oldest goes; of those who have knocked, who must be ours or have listened to ours, last.
void Door::make_room() {
  if (strangers_.size() < kStrangers) return;
  auto oldest = std::find_if(strangers_.begin(), strangers_.end(),
                             [](const auto& s) { return !s.second.handshake.knocked(); });
  if (oldest == strangers_.end()) oldest = strangers_.begin();
  refuse(oldest->first, "too many strangers");
}

void Door::on_frame(Id id, const Frame& frame) {
  const auto found = strangers_.find(id);
  if (found == strangers_.end()) return;
  Stranger& stranger = found->second;
  auto step = stranger.handshake.take(frame, monotonic_now());
  const Hello& hello = stranger.handshake.hello();
  if (step && !wiring_.expects(hello.node)) step = fail("no follower of this generation");
  if (!step) {  // later: we are inside the link's own callback
    wiring_.loop.post([this, alive = alive_, id, why = step.error().what] {
      if (*alive) refuse(id, why);
    });
    return;
  }
  if (!step->empty()) return stranger.link->send('h', *step);
  const SessionKeys keys = stranger.handshake.keys();
  stranger.link->secure({Seal(keys.to_follower), Seal(keys.to_lead)});
  const Hello who = hello;
  auto link = std::move(stranger.link);
  strangers_.erase(found);
  wiring_.known(who, std::move(link));
}

void Door::refuse(Id id, const std::string& why) {
  const auto found = strangers_.find(id);
  if (found == strangers_.end()) return;
  refusals_.add(why, found->second.peer, monotonic_now());
  strangers_.erase(found);
}

void Door::sweep() {
  sweep_timer_ = wiring_.loop.after(kSweepEvery, [this] { sweep(); });
  const Instant now = monotonic_now();
  while (!strangers_.empty() && strangers_.begin()->second.handshake.late(now))
    refuse(strangers_.begin()->first, "said nothing");
  if (const auto text = refusals_.take_notice(now)) wiring_.notice(*text);
}

}  // namespace stoker::agent
