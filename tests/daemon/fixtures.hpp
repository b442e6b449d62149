// Fixtures of the daemon's tests: a folder that goes away, and journal rows made in one line.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/journal.hpp"

namespace stoker::daemon::test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "stokerd-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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
