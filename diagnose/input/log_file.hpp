// Reads one log for a scan: plain, .gz, .zst, .xz (detected by content, not by name), or a journald
// export; `-` is standard input. Whole lines go on in blocks; a line over 1 MiB is cut there.
// What goes wrong halfway becomes a note of the scan, and what was read counts.
#pragma once

#include <string>

#include "common/result.hpp"
#include "diagnose/input/log_reader.hpp"
#include "diagnose/match/log_scan.hpp"

namespace stoker::diagnose {

// What a thread that scans many logs keeps from one to the next.
class ScanDesk {
 public:
  explicit ScanDesk(const Detector& detector);
  LineSieve sieve;
  std::vector<char> piece;  // that files are read into
};

// Errors: the file cannot be opened, or it is no regular file (a FIFO or device would block; only
// standard input may be one).
Result<ScannedLog> scan_file(const Detector& detector, const std::string& path, std::uint32_t place,
                             bool kernel_log);
Result<ScannedLog> scan_file(const Detector& detector, ScanDesk& desk, const std::string& path,
                             std::uint32_t place, bool kernel_log, Links links = Links::All);

// One log in memory; for tests and for what came over a socket.
ScannedLog scan_text(const Detector& detector, std::string_view text, const std::string& name,
                     std::uint32_t place = 0, bool kernel_log = false);

}  // namespace stoker::diagnose
