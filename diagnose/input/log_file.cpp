// A log, a flight-recorder dump or a stack dump, distinguished by the first bytes.
#include "diagnose/input/log_file.hpp"

#include <algorithm>
#include <optional>

#include "diagnose/input/line_origin.hpp"
#include "diagnose/input/log_reader.hpp"
#include "diagnose/input/utf16.hpp"
#include "diagnose/parse/flight_recorder.hpp"
#include "diagnose/parse/pickle.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::size_t kLargestDump = 64u << 20, kLargestStacks = 1u << 20;

// A flight-recorder dump as a log: who is stuck in what. A dump may be asked for at any time, so
// alone it is but a clue.
ScannedLog dump_as_log(const std::string& path, std::uint32_t place,
                       const std::optional<std::string>& bytes) {
  ScannedLog log;
  log.name = path;
  const PathOrigin origin = read_path_origin(path);
  log.node = origin.node;
  log.rank = origin.rank;
  if (!bytes) {
    log.notes.push_back("this dump is larger than 64 MiB and was left out");
    return log;
  }
  auto reports = read_flight_dump(*bytes, origin.rank.value_or(0), path);
  if (!reports) {
    log.notes.push_back("left out: " + reports.error().what);
    return log;
  }
  if (!origin.rank) log.notes.push_back("the name has no rank; 0 is assumed");
  log.collectives = std::move(*reports);
  for (const CollectiveReport& r : log.collectives) {
    if (r.stuck_in < 0) continue;
    Finding f;
    f.failure_class = FailureClass::NcclTimeout;
    f.severity = Severity::Clue;
    f.confidence = 0.6;
    f.file = place;
    f.text = "collective " + std::to_string(r.stuck_in) + " " + r.operation + " of group " +
             r.group + " has not finished";
    f.ranks = {r.rank};
    f.node = origin.node;
    log.findings.push_back(std::move(f));
    break;
  }
  return log;
}

// Some NUL bytes are the hole of a file that was cut off under its writer; many are no text.
bool is_binary(std::string_view head) {
  head = head.substr(0, 4096);
  const auto more_than = [&](auto what, std::size_t least, std::size_t one_of) {
    const auto some = static_cast<std::size_t>(std::count_if(head.begin(), head.end(), what));
    return some > least && some * one_of > head.size();
  };
  const auto control = [](char c) { return (c > 0 && c < 7) || (c > 13 && c < 27); };
  return more_than([](char c) { return c == 0; }, 64, 10) || more_than(control, 8, 20);
}

// What py-spy, faulthandler and stoker-agent write first.
bool is_stack_dump(std::string_view head) {
  head = head.substr(0, 4096);
  if (head.starts_with("Process ") && head.find("\nThread ") != std::string_view::npos) return true;
  if (head.starts_with("# stacks of ")) return true;
  const auto thread = head.find("hread 0x");
  return thread < 200 && head.find("(most recent call first)") < thread + 200;
}

}  // namespace

ScanDesk::ScanDesk(const Detector& detector) : sieve(detector.sieve()) {}

namespace {

ScannedLog scan_lines(LogReader& reader, LogScanner& scanner) {
  for (std::string_view block = reader.next(); !block.empty(); block = reader.next())
    scanner.block(block);
  for (const auto& note : reader.notes()) scanner.note(note);
  return scanner.finish();
}

}  // namespace

Result<ScannedLog> scan_file(const Detector& detector, const std::string& path, std::uint32_t place,
                             bool kernel_log) {
  ScanDesk desk(detector);
  return scan_file(detector, desk, path, place, kernel_log);
}

Result<ScannedLog> scan_file(const Detector& detector, ScanDesk& desk, const std::string& path,
                             std::uint32_t place, bool kernel_log, Links links) {
  STOKER_TRY(reader, LogReader::open(path, std::move(desk.piece), links));
  if (may_be_flight_dump(reader.head())) {
    const std::string head(reader.head());
    const auto bytes = reader.stored(kLargestDump);
    if (is_pickle(head) || (bytes && read_flight_dump(*bytes, 0, path)))
      return dump_as_log(path, place, bytes);
    return scan_text(detector, bytes.value_or(head), path, place, kernel_log);
  }
  LogScanner scanner(detector, desk.sieve, path, place, kernel_log);
  std::string stacks;
  if (is_stack_dump(reader.head())) stacks = std::string(reader.head().substr(0, kLargestStacks));
  const bool binary =
      !reader.packed() && !Utf16Text::told_by(reader.head()) && is_binary(reader.head());
  if (binary) scanner.note("looks binary: its text was searched all the same");
  ScannedLog log = scan_lines(reader, scanner);
  log.binary = binary;
  desk.piece = reader.take_room();
  log.stacks = std::move(stacks);
  return log;
}

ScannedLog scan_text(const Detector& detector, std::string_view text, const std::string& name,
                     std::uint32_t place, bool kernel_log) {
  LineSieve sieve = detector.sieve();
  LogScanner scanner(detector, sieve, name, place, kernel_log);
  LogReader reader = LogReader::of_text(std::string(text));
  return scan_lines(reader, scanner);
}

}  // namespace stoker::diagnose
