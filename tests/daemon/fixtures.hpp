// Fixtures of the daemon's tests: journal rows made in one line, what a socket answers.
#pragma once

#include <string>
#include <sys/socket.h>

#include "common/os/fd.hpp"
#include "core/engine/journal.hpp"
#include "tests/folder.hpp"

namespace stoker::daemon::test {

using stoker::testing::Folder;

// All that comes until the other side closes.
inline std::string read_all(const os::Fd& socket) {
  std::string out;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::recv(socket.get(), buffer, sizeof buffer, 0)) > 0;)
    out.append(buffer, static_cast<std::size_t>(n));
  return out;
}

inline core::JournalRow row(std::uint64_t seq, core::EventBody body,
                            std::string reason = "because") {
  core::JournalRow r;
  r.seq = Sequence(seq);
  r.event.at = Instant(std::chrono::seconds(seq));
  r.event.wall = WallTime(std::chrono::seconds(1'700'000'000 + seq));
  r.event.run = RunName("hello");
  r.event.body = std::move(body);
  r.decision.reason = std::move(reason);
  return r;
}
inline core::StateRow state(std::uint64_t seq, std::string bytes = "{}") {
  return {Sequence(seq), 1, "test", std::move(bytes)};
}
inline core::Intent look_up(const std::string& key, const std::string& token) {
  return {EffectKey(key), RunName("hello"), core::LookUpToken{Token(token)}};
}

}  // namespace stoker::daemon::test
