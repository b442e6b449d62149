// A line that a pattern hit is searched once more: which signatures really match, which is the
// heaviest, whose line it is. All other lines cost the block pass alone.
#include "diagnose/match/log_scan.hpp"

#include <algorithm>
#include <re2/re2.h>

#include "common/hostlist.hpp"
#include "diagnose/input/line_scan.hpp"
#include "diagnose/match/line_finding.hpp"
#include "diagnose/parse/iteration_line.hpp"
#include "diagnose/parse/kernel_begin.hpp"

namespace stoker::diagnose {

namespace {
constexpr std::uint64_t kTracebackReach = 400;  // lines; stacks of many ranks interleave
constexpr std::size_t kMostFindings = 20'000;   // distinct ones of a file
constexpr std::size_t kTail = 16u << 10;
constexpr std::size_t kLastLines = 12;
constexpr const char* kIterationWords = "(?:iteration|loss|step|Loss)";
constexpr const char* kTraceWords = R"(^(\++) \S)";

template <typename Is>
bool any_of_first(std::string_view block, const Is& is) {  // 50 lines of a block
  for (int lines = 0; !block.empty() && lines < 50; ++lines) {
    const auto newline = std::min(block.find('\n'), block.size());
    if (is(block.substr(0, newline))) return true;
    block.remove_prefix(std::min(newline + 1, block.size()));
  }
  return false;
}
}  // namespace

Result<Detector> Detector::make(std::shared_ptr<const Knowledge> knowledge,
                                const PatternCache* cache) {
  std::vector<std::string> expressions;
  for (const auto& signature : knowledge->signatures) expressions.push_back(signature.pattern);
  expressions.emplace_back(kIterationWords);
  expressions.emplace_back(GpuPlaces::kWords);
  expressions.emplace_back(kTraceWords);
  STOKER_TRY(patterns, PatternSet::compile(expressions, cache));
  return Detector(std::move(knowledge), std::move(patterns));
}

unsigned Detector::iteration_pattern() const {
  return static_cast<unsigned>(knowledge_->signatures.size());
}
unsigned Detector::gpu_pattern() const {
  return iteration_pattern() + 1;
}
unsigned Detector::trace_pattern() const {  // the last one
  return iteration_pattern() + 2;
}

LogScanner::LogScanner(const Detector& detector, LineSieve& sieve, std::string name,
                       std::uint32_t file, bool kernel_log)
    : detector_(detector), sieve_(sieve), file_(file) {
  log_.name = std::move(name);
  log_.kernel_log = named_kernel_log_ = kernel_log;
  path_ = read_path_origin(log_.name);
  gpus_ = GpuPlaces(path_.node, path_.rank);
}

void LogScanner::stands_on(std::string node) {
  path_.node = std::move(node);
  gpus_ = GpuPlaces(path_.node, path_.rank);
}

bool LogScanner::is_kernel_log(std::string_view block) const {
  int lines = 0, kernel = 0;
  while (!block.empty() && lines < 50) {
    const auto newline = block.find('\n');
    const auto line = block.substr(0, newline);
    block.remove_prefix(newline == std::string_view::npos ? block.size() : newline + 1);
    if (trim(line).empty()) continue;
    ++lines;
    const LineOrigin origin = read_origin(line);
    if (origin.kernel_header && !origin.rank_label) ++kernel;
    if (lines - kernel > 10) return false;  // of 50 too many already
  }
  return lines > 0 && kernel * 5 >= lines * 4;
}

// A line without a date stands between two with one; the first of a few decides.
std::optional<std::int64_t> LogScanner::first_time(std::string_view block) {
  std::optional<std::int64_t> time;
  any_of_first(block, [&](std::string_view line) {
    time = read_origin(line).time_ms;
    return time.has_value();
  });
  return time;
}

void LogScanner::block(std::string_view whole_lines) {
  if (!begun_ && is_kernel_log(whole_lines)) log_.kernel_log = true;
  if (log_.kernel_log && !has_kernel_headers_)
    has_kernel_headers_ = any_of_first(
        whole_lines, [](std::string_view line) { return read_origin(line).kernel_header; });
  if (!begun_) log_.first_time_ms = first_time(whole_lines);
  begun_ = true;
  block_ = whole_lines;
  const std::uint64_t before = log_.lines;
  log_.lines += sieve_.block(whole_lines, [&](const LineSieve::Line& line) { look(before, line); });
  keep_tail(whole_lines);
}

void LogScanner::keep_tail(std::string_view block) {
  if (block.size() >= kTail) {
    tail_ = block.substr(block.size() - kTail);
    return;
  }
  tail_ += block;
  if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
}

void LogScanner::look(std::uint64_t before, const LineSieve::Line& line) {
  const std::uint64_t number = before + line.number + 1;
  if (line.step != nullptr) progress(number, line.text, read_step(*line.step, line.text));
  if (line.ids.empty()) return;
  if (std::binary_search(line.ids.begin(), line.ids.end(), detector_.gpu_pattern())) {
    const char* const behind = line.text.data() + line.text.size();
    gpus_.line(line.text, block_.substr(static_cast<std::size_t>(behind - block_.data())));
  }
  hit(number, line.text, line.ids);
}

// A progress bar rewrites its line with '\r': each version is read as a separate line.
void LogScanner::hit(std::uint64_t line, std::string_view raw, Ids ids) {
  std::string_view text = without_colours(raw, plain_);
  while (!text.empty()) {
    const auto bar = text.find('\r');
    const auto part = text.substr(0, bar);
    if (!part.empty()) examine(line, part, ids);
    if (bar == std::string_view::npos) break;
    text.remove_prefix(bar + 1);
  }
}

void LogScanner::examine(std::uint64_t line, std::string_view text, Ids ids) {
  std::size_t signatures = ids.size();
  for (const unsigned id : ids) {
    if (id == detector_.iteration_pattern())
      if (const auto metrics = parse_iteration_line(text))
        progress(line, text, step_numbers(*metrics));
    if (id >= detector_.iteration_pattern()) --signatures;
  }
  if (signatures == 0 && ids.back() != detector_.trace_pattern()) return;
  const LineOrigin origin = read_origin(text);
  if (ids.back() == detector_.trace_pattern()) {
    const auto plus = origin.message.find_first_not_of('+');
    if (plus != std::string_view::npos && plus > 0 && origin.message[plus] == ' ')
      trace_depth_ = plus;
  }
  const auto best = heaviest(line, text, ids.first(signatures), origin);
  if (!best) return;
  const Signature& signature = *best->signature;
  if (signature.severity == Severity::Benign) return;
  if (signature.severity == Severity::Success) {
    log_.success_line = line;
    return;
  }
  if (signature.decode == Decode::TaskExit && trace_depth_ >= 2) return;
  if (signature.decode == Decode::Overflow) return losses_.overflow(line, text);
  if (signature.decode == Decode::ElasticRow) return elastic_row(line, text);
  if (signature.decode == Decode::Ras && !ras_.line(origin.message)) return;
  if (signature.failure_class == FailureClass::NcclTimeout) collective(text, origin);
  Finding finding = make_finding(signature, best->groups, origin, text);
  finding.file = file_;
  finding.line = finding.last_line = line;
  if (finding.node.empty()) finding.node = path_.node;
  if (finding.ranks.empty() && path_.rank) finding.ranks.push_back(*path_.rank);
  if (signature.kernel) finding.ranks.clear();
  if (signature.decode == Decode::ElasticSignal && in_root_section_) ++finding.weight;
  if (best->demoted) {
    finding.severity = Severity::Clue;
    finding.confidence /= 2;
  }
  finding.only_without_iterations =
      best->kernel == KernelWords::Bare || signature.decode == Decode::Teardown;
  const auto at = static_cast<std::size_t>(best->groups.front().text.data() - text.data());
  if (!signature.kernel) finding.in_passing = in_passing(signature, text, at);
  if (best->kernel == KernelWords::Quoted) {
    finding.confidence *= 0.8;
    if (const auto node = quoted_node(text, at); !node.empty()) finding.node = node;
  }
  if (signature.decode == Decode::Kernel &&
      !decode_kernel(finding, text.substr(at), detector_.knowledge().xids))
    return;
  keep(std::move(finding));
}

// A stack that a line of information begins belongs to it to its end.
bool LogScanner::in_passing(const Signature& signature, std::string_view text, std::size_t at) {
  if (signature.decode == Decode::Traceback && text.substr(at).starts_with("Traceback ("))
    return trace_in_passing_ = told_as_information(text, at);
  if (signature.needs_traceback || signature.decode == Decode::Traceback) return trace_in_passing_;
  return told_as_information(text, at);
}

std::optional<LogScanner::Candidate> LogScanner::heaviest(std::uint64_t line, std::string_view text,
                                                          Ids ids, const LineOrigin& origin) {
  std::optional<Candidate> best;
  std::vector<PatternSet::Group> groups;
  for (const unsigned id : ids) {
    const Signature& signature = detector_.knowledge().signatures[id];
    if (!counts_here(signature, origin)) continue;
    if (signature.needs_traceback && origin.mild) continue;  // it goes on
    const bool anchored = signature.pattern.find('^') != std::string::npos;
    if (!detector_.patterns().match(id, anchored ? origin.message : text, groups)) continue;
    if (signature.decode == Decode::Traceback) last_traceback_ = line;
    KernelWords kernel = KernelWords::No;
    if (signature.kernel) {
      kernel = kernel_evidence(signature, origin, text, groups.front().text);
      if (kernel == KernelWords::No) continue;
    }
    const bool demoted = signature.needs_traceback &&
                         (last_traceback_ == 0 || line > last_traceback_ + kTracebackReach);
    if (!best || signature.weight > best->signature->weight)
      best = Candidate{&signature, groups, kernel, demoted};
  }
  return best;
}

// In a kernel log the kernel alone has something to say, and quotes names of users. Where a log
// only looks like one, it may be a training's: then words of a program count that accuse no node.
bool LogScanner::counts_here(const Signature& signature, const LineOrigin& origin) const {
  if (signature.kernel || signature.severity == Severity::Benign) return true;
  if (named_kernel_log_) return false;
  if (!log_.kernel_log || !origin.kernel_header) return true;
  const Advice& usual = detector_.knowledge().causes.meaning(signature.failure_class).advice;
  const Advice& advice = signature.has_advice ? signature.advice : usual;
  return signature.node_suspect != NodeSuspect::Yes && advice.action != RunAction::RestartExcluding;
}

KernelWords LogScanner::kernel_evidence(const Signature& signature, const LineOrigin& origin,
                                        std::string_view text, std::string_view match) const {
  const auto at = static_cast<std::size_t>(match.data() - text.data());
  KernelWords words = kernel_words(origin, text, at);
  if (log_.kernel_log) {
    const bool goes_on = has_kernel_headers_ && !origin.kernel_header;
    words = origin.other_program || goes_on ? KernelWords::No : KernelWords::Header;
  }
  if (words != KernelWords::Header && words != KernelWords::Bare) return words;
  const bool of_process = signature.failure_class == FailureClass::Segfault ||
                          signature.failure_class == FailureClass::HostOom;
  const bool own = match.data() >= origin.kernel_message.data() &&
                   (of_process ? begins_behind_name(origin.kernel_message, match)
                               : begins_message(origin.kernel_message, match));
  return own ? words : KernelWords::No;
}

void LogScanner::progress(std::uint64_t line, std::string_view text, const StepNumbers& numbers) {
  ++log_.iteration_lines;
  losses_.iteration(line, text, numbers);
  // Ranks may print the same iteration; a much smaller one is a start from a checkpoint. A program
  // that counts nothing goes on with each line.
  const std::uint64_t before = log_.last_iteration;
  const bool further = !numbers.iteration || *numbers.iteration > before ||
                       *numbers.iteration + 2 < before || latest_progress_ == 0;
  if (!further) return;
  log_.last_iteration = numbers.iteration.value_or(before);
  log_.progressed_line = latest_progress_;
  latest_progress_ = line;
}

void LogScanner::elastic_row(std::uint64_t line, std::string_view text) {
  static const RE2 kField(R"((host|rank|exitcode) +: +([^ ]+))");
  if (text.find("Root Cause") != std::string_view::npos) {
    row_is_root_ = in_root_section_ = true;
    return;
  }
  std::string field, value;
  if (!RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), kField, &field, &value))
    return;
  if (field == "host") {
    row_ = ElasticRow{};
    in_root_section_ = row_is_root_;
    row_.line = line;
    row_.host = value;
    row_.root = row_is_root_;
  } else if (field == "rank") {
    std::uint32_t rank = 0;
    if (RE2::FullMatch(value, R"((\d+))", &rank)) row_.rank = rank;
  } else {
    int code = 0;
    if (RE2::FullMatch(value, R"((-?\d+))", &code)) row_.exit_code = code;
    if (row_.line != 0 && log_.elastic.size() < kMostFindings) log_.elastic.push_back(row_);
    row_ = ElasticRow{};
    row_is_root_ = false;
  }
}

void LogScanner::collective(std::string_view text, const LineOrigin& origin) {
  auto report = parse_watchdog_line(text);
  if (!report || log_.collectives.size() >= kMostReports) return;
  if (const auto rank = origin.rank ? origin.rank : path_.rank) {
    report->rank = *rank;
    report->global_rank = true;
  }
  report->node = origin.node.empty() ? path_.node : origin.node;
  log_.collectives.push_back(std::move(*report));
}

void LogScanner::keep(Finding finding) {
  const Key key{finding.signature,
                finding.weight,
                finding.node,
                finding.gpu_pci,
                finding.xid,
                finding.ranks.empty() ? -1 : static_cast<std::int64_t>(finding.ranks.front())};
  const auto known = folded_.find(key);
  // What was said before the training went on is another event than what is said now.
  if (known != folded_.end() && log_.findings[known->second].line >= log_.progressed_line) {
    Finding& first = log_.findings[known->second];
    ++first.count;
    first.last_line = finding.line;
    first.last_time_ms = finding.time_ms;
    return;
  }
  if (log_.findings.size() >= kMostFindings) return;
  folded_[key] = log_.findings.size();
  log_.findings.push_back(std::move(finding));
}

std::uint64_t LogScanner::version() const {
  const std::uint64_t outlived = log_.findings.empty() ? 0 : log_.progressed_line;
  const std::size_t losses = losses_.finish().size();
  return log_.findings.size() + log_.elastic.size() + log_.collectives.size() + log_.success_line +
         outlived + (losses > 0 ? losses + log_.iteration_lines : 0);
}

ScannedLog LogScanner::so_far() const {
  ScannedLog log = log_;
  tell_end(log);
  return log;
}

ScannedLog LogScanner::finish() {
  ScannedLog log = std::move(log_);
  tell_end(log);
  return log;
}

void LogScanner::tell_end(ScannedLog& log) const {
  for (auto& finding : losses_.finish()) {
    finding.file = file_;
    if (path_.rank) finding.ranks.push_back(*path_.rank);
    log.findings.push_back(std::move(finding));
  }
  if (log.iteration_lines > 0 && !log.kernel_log)  // then it is what a rank printed
    std::erase_if(log.findings, [](const Finding& f) { return f.only_without_iterations; });
  for (auto& report : ras_.reports()) log.collectives.push_back(std::move(report));
  log.gpus = gpus_.found();
  log.node = path_.node;
  log.rank = path_.rank;
  std::stable_sort(log.findings.begin(), log.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  if (log.success_line < log.progressed_line) log.success_line = 0;
  std::string_view rest = tail_;
  std::string plain;
  while (!rest.empty() && (log.last_lines.size() < kLastLines || !log.last_time_ms)) {
    const auto newline = rest.rfind('\n');
    const auto line = trim(rest.substr(newline == std::string_view::npos ? 0 : newline + 1));
    rest = rest.substr(0, newline == std::string_view::npos ? 0 : newline);
    if (line.empty()) continue;
    if (!log.last_time_ms) log.last_time_ms = read_origin(line).time_ms;
    if (log.last_lines.size() < kLastLines)
      log.last_lines.emplace_back(without_colours(line.substr(0, 400), plain));
  }
  std::reverse(log.last_lines.begin(), log.last_lines.end());
}

}  // namespace stoker::diagnose
