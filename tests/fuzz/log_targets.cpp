// What `stoker diagnose` and the daemon read: logs of ranks and nodes, the kernel's journal, dumps
// of the flight recorder, stacks, packed files, signatures.
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "common/hostlist.hpp"
#include "diagnose/cause/collectives.hpp"
#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/cause/gpu_places.hpp"
#include "diagnose/cause/stack_groups.hpp"
#include "diagnose/input/journal_export.hpp"
#include "diagnose/input/line_origin.hpp"
#include "diagnose/input/log_clock.hpp"
#include "diagnose/input/log_reader.hpp"
#include "diagnose/input/parse_file.hpp"
#include "diagnose/match/line_finding.hpp"
#include "diagnose/match/log_scan.hpp"
#include "diagnose/parse/flight_recorder.hpp"
#include "diagnose/parse/iteration_line.hpp"
#include "diagnose/parse/kernel_line.hpp"
#include "diagnose/parse/phase_line.hpp"
#include "diagnose/parse/pickle.hpp"
#include "diagnose/parse/xid_catalogue.hpp"
#include "tests/fuzz/target.hpp"

namespace stoker::fuzz {
namespace {

using namespace diagnose;

const Detector& detector() {
  static const Detector made = [] {
    configs::Diagnostics errors;
    const PatternCache cache(cache_folder());  // compiling takes seconds here
    return std::move(*Detector::make(load_knowledge({}, errors), &cache));
  }();
  return made;
}

// What a sieve needs of memory is made once; no input knows of the one before it.
ScannedLog scanned(std::string_view text, const std::string& name, bool kernel_log = false,
                   bool search_all = false) {
  static LineSieve quick = detector().sieve(), full = detector().sieve();
  LineSieve& lines = search_all ? full : quick;
  lines.forget();
  if (search_all) lines.search_all();
  LogScanner scanner(detector(), lines, name, 0, kernel_log);
  LogReader reader = LogReader::of_text(std::string(text));
  for (auto block = reader.next(); !block.empty(); block = reader.next()) scanner.block(block);
  return scanner.finish();
}

std::string labelled(std::string_view bytes) {
  std::string log;
  each_line(bytes, [&](std::string_view line) { log.append("[n01:3] ").append(line) += '\n'; });
  return log;
}

void log(std::string_view bytes) {
  const Diagnosis d = find_cause({scanned(bytes, "main.log")}, detector().knowledge().causes);
  must(d.confidence >= 0 && d.confidence <= 1, "confidence is a share");
  (void)dump_json(to_json_object(d));
}
void rank_log(std::string_view bytes) {
  for (const Finding& f : scanned(labelled(bytes), "main.log").findings)
    must(!f.from_kernel, "a rank spoke as the kernel");
}
// What is known of a line's shape hides nothing: the same findings as when each line is searched.
void sieve(std::string_view bytes) {
  std::string log;
  for (char digit = '1'; digit < '5'; ++digit) {
    for (const char c : bytes) log += c >= '0' && c <= '9' && digit < '4' ? digit : c;
    log += '\n';
  }
  const ScannedLog quick = scanned(log, "main.log"), full = scanned(log, "main.log", false, true);
  must(quick.lines == full.lines && quick.findings.size() == full.findings.size(),
       "as many findings");
  must(quick.iteration_lines == full.iteration_lines && quick.last_iteration == full.last_iteration,
       "the same iterations");
  for (std::size_t i = 0; i < full.findings.size(); ++i)
    must(quick.findings[i].line == full.findings[i].line &&
             quick.findings[i].text == full.findings[i].text,
         "the same finding");
}
void kernel(std::string_view bytes) {
  (void)scanned(bytes, "dmesg-n01.txt", true);
  (void)parse_kernel_line(bytes);
  (void)normal_pci(bytes);
  (void)detector().knowledge().xids.xid(154, bytes);
  (void)detector().knowledge().xids.xid(145, bytes);
  (void)detector().knowledge().xids.sxid(12028, bytes);
}
void origin(std::string_view bytes) {
  const LineOrigin o = read_origin(bytes);
  must(o.message.data() >= bytes.data() &&
           o.message.data() + o.message.size() <= bytes.data() + bytes.size(),
       "the message is a part of the line");
  (void)read_path_origin(bytes);
  (void)quoted_node(bytes, bytes.size() / 2);
  (void)rank_list(bytes);
  (void)expand_hostlist(bytes);
}
void metrics(std::string_view bytes) {
  MetricsReader reader([](const FoundMetrics&) {});
  each_line(bytes, [&](std::string_view line) { reader.line(line); });
  reader.finish();
}
// Read in other pieces it is the same; and only what came from the kernel has its header.
void journal_of(JournalForm form, std::string_view bytes) {
  const auto lines = [&](std::size_t piece) {
    std::string all;
    JournalExport reader(form);
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      reader.feed(bytes.substr(at, piece),
                  [&](std::string_view line) { all.append(line).push_back('\n'); });
    return all;
  };
  const std::string whole = lines(bytes.size() + 1);
  must(whole == lines(7), "the same lines");
  if (bytes.find("kernel") != std::string_view::npos || bytes.find('\\') != std::string_view::npos)
    return;
  for (std::string_view rest = whole; !rest.empty();) {
    const auto end = rest.find('\n');
    must(!read_origin(rest.substr(0, end)).kernel_header, "an entry spoke as the kernel");
    rest.remove_prefix(end + 1);
  }
}
void journal(std::string_view bytes) {
  journal_of(JournalForm::Export, bytes);
}
void journal_json(std::string_view bytes) {
  journal_of(JournalForm::Json, bytes);
}
void pickle(std::string_view bytes) {
  (void)read_pickle(bytes, "fuzz");
  const auto reports = read_flight_dump(bytes, 3, "fuzz");
  if (reports) (void)find_missing(*reports);
}
// Unpacked it is the same in blocks of whole lines, and it ends.
void packed(std::string_view bytes) {
  auto reader = LogReader::open(scratch_file("packed", bytes));
  must(reader.has_value(), "a regular file opens");
  constexpr std::size_t kEnough = 64u << 20;
  std::size_t read = 0;
  for (auto block = reader->next(); !block.empty() && read < kEnough; block = reader->next())
    read += block.size();
}
void collectives(std::string_view bytes) {
  RasReader ras;
  std::vector<CollectiveReport> reports;
  each_line(bytes, [&](std::string_view line) {
    ras.line(line);
    if (auto report = parse_watchdog_line(line)) reports.push_back(*report);
  });
  for (auto& report : ras.reports()) reports.push_back(report);
  (void)missing_text(find_missing(reports));
}
void stacks(std::string_view bytes) {
  const std::string text(bytes);
  const std::size_t half = text.size() / 2;
  (void)group_stacks({{"n01", 0, text}, {"n02", 1, text.substr(half)}, {"n03", 2, text}});
}
void signatures(std::string_view bytes) {
  configs::Diagnostics errors;
  (void)read_signatures(bytes, "fuzz.yaml", {}, errors);
}
void clocks(std::string_view bytes) {
  LogClock clock({0, 1'700'000'000'000});
  std::int64_t before = INT64_MIN;
  GpuPlaces places;
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    const auto line = bytes.substr(0, end);
    places.line(line, bytes.substr(end));
    const auto told = parse_iteration_line(line);
    const std::int64_t now = clock.line(line, told ? &*told : nullptr);
    must(now >= before, "the clock of a log never runs back");
    before = now;
    (void)parse_phase_line(line);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  (void)clock.notes();
  (void)rank_on_gpu(places.found(), "n01", "0000:cb:00");
}

void make_detector() {
  (void)detector();
}

constexpr std::array kTargets{Target{"log", log, make_detector},
                              Target{"rank_log", rank_log, make_detector},
                              Target{"sieve", sieve, make_detector},
                              Target{"kernel", kernel, make_detector},
                              Target{"origin", origin},
                              Target{"metrics", metrics},
                              Target{"journal", journal},
                              Target{"journal_json", journal_json},
                              Target{"pickle", pickle},
                              Target{"packed", packed},
                              Target{"collectives", collectives},
                              Target{"stacks", stacks},
                              Target{"signatures", signatures},
                              Target{"clocks", clocks}};

}  // namespace

std::span<const Target> log_targets() {
  return kTargets;
}

}  // namespace stoker::fuzz
