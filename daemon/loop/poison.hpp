// PoisonGuard: an input that aborts the daemon must not become a crash loop. The inputs about to be
// stepped are noted in a file first and the note is wiped after. A crash (a failed check, a signal
// of the CPU, the watchdog; not kill -9, which accuses no event) marks the note; a marked note
// counts against its inputs at the next start. While any input is under suspicion they are stepped
// one by one, so that the second abort names the guilty one, which is then set aside. The note is
// not synced: it must outlive the process, not the host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "core/engine/engine.hpp"

namespace stoker::daemon {

// stepping.json
struct SteppingNote {
  std::map<std::string, std::uint32_t> aborts;  // digest of an input -> aborts so far
  std::vector<std::string> stepping;            // digests of the inputs being stepped
  STOKER_FIELDS(SteppingNote, aborts, stepping)
};

// SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE: write one byte to `marker` (a file that is kept open),
// then die as before.
Status mark_crashes_in(const std::string& marker);

std::string input_digest(const core::Input& input);

inline constexpr std::uint32_t kAbortsUntilQuarantine = 2;

class PoisonGuard {
 public:
  // Reads the note of the process before and counts its aborts. Installs the handlers that mark
  // a crash (once a process).
  static Result<PoisonGuard> open(const std::string& path);

  // Step one by one: something is under suspicion.
  [[nodiscard]] bool careful() const { return !note_.aborts.empty(); }
  [[nodiscard]] bool is_poisonous(const core::Input& input) const;
  // Before and after a step. After it, the inputs are innocent.
  Status before(const std::vector<core::Input>& inputs);
  Status after();
  // The input was quarantined: it need not be remembered.
  Status forget(const core::Input& input);

 private:
  explicit PoisonGuard(os::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status write();
  os::Fd fd_;
  std::string path_;
  SteppingNote note_;
};

}  // namespace stoker::daemon
