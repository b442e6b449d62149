// scan_speed FILE [ROUNDS]: how fast a log is scanned on one thread, against the least that reading
// its lines costs: read() and a search for each newline, in turns in the same process. Seconds of
// this thread's CPU time: what others compute meanwhile does not count. One JSON line. For ./dev
// bench scan.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "diagnose/input/log_file.hpp"

using namespace stoker;

namespace {

constexpr std::size_t kPiece = 256u << 10;

std::uint64_t count_lines(const char* path) {
  const os::Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::vector<char> piece(kPiece);
  std::uint64_t lines = 0;
  for (ssize_t got = 0; (got = ::read(fd.get(), piece.data(), piece.size())) > 0;) {
    const char* at = piece.data();
    const char* const end = at + got;
    while (const void* newline = std::memchr(at, '\n', static_cast<std::size_t>(end - at))) {
      ++lines;
      at = static_cast<const char*>(newline) + 1;
    }
  }
  return lines;
}

template <class Work>
double seconds_of(Work work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  work();
  return now() - begin;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print(stderr, "usage: scan_speed FILE [ROUNDS]\n"), 2;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 3;
  configs::Diagnostics errors;
  const auto detector = diagnose::Detector::make(diagnose::load_knowledge({}, errors));
  if (!detector) return fmt::print(stderr, "{}\n", detector.error().message()), 1;
  std::vector<double> floors, scans;
  diagnose::ScannedLog log;
  for (int round = 0; round <= rounds; ++round) {  // the first one warms the page cache
    std::uint64_t lines = 0;
    const double floor = seconds_of([&] { lines = count_lines(argv[1]); });
    Result<diagnose::ScannedLog> scanned = fail("not scanned");
    const double scan =
        seconds_of([&] { scanned = diagnose::scan_file(*detector, argv[1], 0, false); });
    if (!scanned) return fmt::print(stderr, "{}\n", scanned.error().message()), 1;
    log = std::move(*scanned);
    if (lines != log.lines && lines + 1 != log.lines)
      return fmt::print(stderr, "{} lines or {}?\n", lines, log.lines), 1;
    if (round == 0) continue;
    floors.push_back(floor);
    scans.push_back(scan);
  }
  fmt::print(
      "{{\"floor_s\": {}, \"scan_s\": {}, \"lines\": {}, \"iteration_lines\": {}, \"findings\": "
      "{}, "
      "\"signatures\": {}}}\n",
      median(floors), median(scans), log.lines, log.iteration_lines, log.findings.size(),
      detector->knowledge().signatures.size());
  return 0;
}
