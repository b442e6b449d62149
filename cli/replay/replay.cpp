// The two readings. Lines go to the live scan in blocks of at most a second of log time.
#include "cli/replay/replay.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "cli/replay/log_merge.hpp"
#include "diagnose/match/live_scan.hpp"

namespace stoker::cli {

namespace {

constexpr std::size_t kMostNodes = 4096, kBlock = 256u << 10, kMostProgress = 20'000'000;
constexpr std::int64_t kTogether = 1000;  // lines of one block are at most this far apart, in ms
constexpr std::uint64_t kOutOfStep = 2;   // ranks may print an iteration later than others
// A look at the findings takes as long as there are many: then it waits for some blocks.
constexpr std::size_t kFindingsABlock = 64, kMostUnranked = 1000;
constexpr std::uint32_t kMostRanks = 1u << 20;

struct Progress {
  std::uint64_t iteration = 0;
  bool restarted = false;  // the logs show a start since the one before
};

// What the logs show as a whole.
struct Shown {
  std::vector<Progress> progress;
  std::set<std::string> nodes;
  std::uint32_t ranks = 0;
  std::uint64_t lines = 0;
  std::int64_t first_ms = 0, last_ms = 0;  // of the training's logs
  std::vector<std::int64_t> source_first, source_last;
  bool any_line = false, stamped = false;
  std::vector<std::string> notes;
};

// "[n03:5] text": node and rank of our own main.log.
void note_label(std::string_view text, Shown& shown) {
  if (!text.starts_with('[')) return;
  const auto colon = text.find(':'), close = text.find(']');
  if (colon == std::string_view::npos || close == std::string_view::npos || colon > close) return;
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + close, rank);
  if (error != std::errc() || end != text.data() + close || rank >= kMostRanks) return;
  const std::string_view node = text.substr(1, colon - 1);
  if (node.empty() || node.size() > 64 || node.find(' ') != std::string_view::npos) return;
  shown.ranks = std::max(shown.ranks, rank + 1);
  if (shown.nodes.size() < kMostNodes) shown.nodes.emplace(node);
}

// Of one iteration line: whether it is progress, and of a new start.
class ProgressLine {
 public:
  std::optional<Progress> judge(std::uint64_t iteration, std::size_t source, std::int64_t began) {
    if (any_ && iteration == best_ && !started_) return std::nullopt;
    const bool behind = any_ && iteration < best_;
    if (behind && best_ - iteration <= kOutOfStep && !started_ && source == source_)
      return std::nullopt;
    const bool restarted = any_ && (started_ || behind || (source != source_ && began > at_));
    any_ = true;
    started_ = false;
    best_ = iteration;
    source_ = source;
    return Progress{iteration, restarted};
  }
  void seen_at(std::int64_t ms) { at_ = ms; }
  void started() { started_ = true; }

 private:
  bool any_ = false, started_ = false;
  std::uint64_t best_ = 0;
  std::size_t source_ = 0;
  std::int64_t at_ = 0;
};

Shown look_through(LogMerge& merge) {
  Shown shown;
  ProgressLine judge;
  shown.source_first.assign(merge.sources().size(), 0);
  shown.source_last.assign(merge.sources().size(), 0);
  MergedLine line;
  while (merge.next(line)) {
    ++shown.lines;
    if (line.number == 1) shown.source_first[line.source] = line.ms;
    shown.source_last[line.source] = line.ms;
    if (merge.sources()[line.source].kernel_log) continue;
    if (!shown.any_line) shown.first_ms = line.ms;
    shown.any_line = true;
    shown.last_ms = line.ms;
    note_label(line.text, shown);
    if (!line.metrics) {
      const auto phase = diagnose::parse_phase_line(line.text);
      if (phase && phase->mark == diagnose::PhaseMark::LoadBegins) judge.started();
      continue;
    }
    const auto progress =
        judge.judge(*line.metrics->iteration, line.source, shown.source_first[line.source]);
    if (!progress) continue;
    judge.seen_at(line.ms);
    if (shown.progress.size() < kMostProgress) shown.progress.push_back(*progress);
  }
  shown.stamped = merge.stamped();
  shown.notes = merge.notes();
  return shown;
}

class Driver {
 public:
  Driver(const Shown& shown, LogMerge& merge, ReplayRun& run, diagnose::LiveScan& scan)
      : shown_(shown), merge_(merge), run_(run), scan_(scan) {}

  Status drive() {
    STOKER_TRY_STATUS(run_.begin(shown_.first_ms));
    MergedLine line;
    while (merge_.next(line)) STOKER_TRY_STATUS(take(line));
    unranked_ = kMostUnranked;
    return flush();
  }

 private:
  [[nodiscard]] bool is_training(const MergedLine& line) const {
    return !merge_.sources()[line.source].kernel_log;
  }

  // No log that is being written: who ended the one before did so at its last line.
  [[nodiscard]] bool nobody_writes(std::int64_t after) const {
    for (std::size_t i = 0; i < shown_.source_first.size(); ++i) {
      if (merge_.sources()[i].kernel_log) continue;
      if (shown_.source_first[i] <= after && shown_.source_last[i] > after) return false;
    }
    return true;
  }

  Status take(const MergedLine& line) {
    const std::int64_t ms = std::max(line.ms, shown_.first_ms);
    const bool apart = line.source != source_ || ms - since_ >= kTogether ||
                       block_.size() >= kBlock || line.metrics.has_value();
    if (apart) STOKER_TRY_STATUS(flush());
    if (ms > now_) {
      if (now_ != INT64_MIN && nobody_writes(now_)) run_.over();
      now_ = std::min(ms, std::max(shown_.last_ms, now_));
      STOKER_TRY_STATUS(run_.advance(now_));
    }
    if (block_.empty()) {
      source_ = line.source;
      since_ = ms;
      before_ = line.number - 1;
    }
    block_.append(line.text).push_back('\n');
    if (!is_training(line)) return ok();
    if (line.metrics) return progress(line);
    const auto phase = diagnose::parse_phase_line(line.text);
    return phase ? run_.phase(*phase) : ok();
  }

  Status progress(const MergedLine& line) {
    const bool counts = next_ < shown_.progress.size() &&
                        shown_.progress[next_].iteration == *line.metrics->iteration;
    if (!counts) return ok();
    const bool restarted = shown_.progress[next_++].restarted;
    if (restarted) {
      block_.clear();
      scan_.forget();
    }
    return run_.iteration(*line.metrics, restarted);
  }

  Status flush() {
    if (block_.empty()) return ok();
    const auto& source = merge_.sources()[source_];
    scan_.lines({source.name, source.kernel_log, ""}, before_, block_);
    block_.clear();
    if (++unranked_ < std::min(scan_.findings() / kFindingsABlock, kMostUnranked)) return ok();
    unranked_ = 0;
    const auto news = scan_.news();
    if (!news) return ok();
    const bool goes_on = next_ < shown_.progress.size() && !shown_.progress[next_].restarted;
    return run_.diagnosed(*news, goes_on);
  }

  const Shown& shown_;
  LogMerge& merge_;
  ReplayRun& run_;
  diagnose::LiveScan& scan_;
  std::size_t next_ = 0;  // of shown_.progress
  std::string block_;
  std::size_t source_ = SIZE_MAX;
  std::uint64_t before_ = 0;  // lines of the source in front of the block
  std::size_t unranked_ = 0;  // blocks since the last look at the findings
  std::int64_t since_ = 0, now_ = INT64_MIN;
};

ReplayRun::Shape shape_of(const Shown& shown, const core::RunPolicy& policy) {
  ReplayRun::Shape shape;
  for (const std::string& node : shown.nodes) shape.nodes.emplace_back(node);
  shape.ranks = shown.ranks;
  if (shape.ranks == 0 && !policy.scheduler.nodes.empty())
    shape.ranks = policy.scheduler.nodes.front().nodes * policy.train.ranks_per_node;
  shape.ranks = std::max(shape.ranks, 1u);
  return shape;
}

WallTime wall(std::int64_t ms) {
  return WallTime(std::chrono::milliseconds(ms));
}

Result<std::optional<diagnose::UserPattern>> pattern_of(const core::RunPolicy& policy) {
  const auto& given = policy.watch.progress;
  if (given.empty()) return std::optional<diagnose::UserPattern>();
  const auto text = [&](const char* name) {
    const auto found = given.find(name);
    return found == given.end() ? std::string() : found->second;
  };
  STOKER_TRY(compiled, diagnose::UserPattern::compile({text("iteration"), text("loss")}));
  return std::optional<diagnose::UserPattern>(std::move(compiled));
}

}  // namespace

double ReplayResult::saved_hours() const {
  double seconds = 0;
  for (const Detection& detection : detections) seconds += detection.saved_s;
  return seconds / 3600;
}

std::size_t ReplayResult::false_alarms() const {
  return static_cast<std::size_t>(
      std::count_if(detections.begin(), detections.end(),
                    [](const Detection& detection) { return detection.log == "went_on"; }));
}

Result<ReplayResult> replay(const std::vector<LogInput>& inputs, const ReplayOptions& options,
                            std::shared_ptr<const diagnose::Detector> detector) {
  ReplayResult result;
  STOKER_TRY(pattern, pattern_of(options.policy));
  const diagnose::UserPattern* user = pattern ? &*pattern : nullptr;
  diagnose::ClockRules rules;
  rules.zone_ms = options.zone_ms;
  LogMerge first(inputs, rules, user, result.errors);
  Shown shown = look_through(first);
  if (!shown.any_line)
    return fail("has no line of a training", inputs.empty() ? "" : inputs.front().path,
                "give the log of a training; --kernel-log alone does not show lost time");
  std::vector<std::string> again;
  LogMerge second(inputs, rules, user, again);
  ReplayRun run(options.policy, shape_of(shown, options.policy));
  diagnose::LiveScan scan(std::move(detector));
  Driver driver(shown, second, run, scan);
  STOKER_TRY_STATUS(driver.drive());
  if (options.until) {
    const std::int64_t until = options.until->time_since_epoch() / std::chrono::milliseconds(1);
    if (until > shown.last_ms) {
      STOKER_TRY_STATUS(run.advance(until));
      shown.last_ms = until;
    }
  }
  STOKER_TRY_STATUS(run.finish());
  result.files = first.sources().size();
  result.lines = shown.lines;
  result.iterations = shown.progress.size();
  result.from = wall(shown.first_ms);
  result.to = wall(shown.last_ms);
  result.stamped = shown.stamped;
  result.detections = run.detections();
  result.said = run.said();
  result.notes = std::move(shown.notes);
  return result;
}

Json to_json_object(const ReplayResult& r) {
  Json detections = Json::array(), said = Json::array();
  for (const Detection& d : r.detections) {
    Json one{{"time", format_rfc3339(d.at)}, {"kind", d.kind},   {"evidence", d.evidence},
             {"decision", d.decision},       {"state", d.state}, {"acted", d.acted}};
    one["log"] = d.log.empty() ? Json() : Json(d.log);
    one["until"] = d.until ? Json(format_rfc3339(*d.until)) : Json();
    one["saved_h"] = d.saved_s / 3600;
    detections.push_back(std::move(one));
  }
  for (const Said& s : r.said) said.push_back({{"time", format_rfc3339(s.at)}, {"text", s.text}});
  return {{"files", r.files},
          {"lines", r.lines},
          {"iterations", r.iterations},
          {"from", format_rfc3339(r.from)},
          {"to", format_rfc3339(r.to)},
          {"clock", r.stamped ? "log" : "iterations"},
          {"detections", std::move(detections)},
          {"said", std::move(said)},
          {"false_alarms", r.false_alarms()},
          {"saved_h", r.saved_hours()},
          {"notes", r.notes}};
}

}  // namespace stoker::cli
