// Which logs are followed, and what their lines become.
#include "daemon/logs/log_watch.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fnmatch.h>

#include "common/os/files.hpp"
#include "diagnose/as_event.hpp"
#include "watch/tail_source.hpp"
#include "wire/lineage.hpp"

namespace stoker::daemon {
namespace {

constexpr Duration kLookForLogs = 10s;
// A script's progress is in its logs alone: they are found before the end of its job is judged, 7 s
// after it (SchedulerTraits::last_words).
constexpr Duration kLookForScriptLogs = 3s;
constexpr std::size_t kNamed = 8;  // logs that are followed from one look on; more are counted
constexpr std::size_t kMostNamed = 1000;     // by one process; then only their number is reported
constexpr std::size_t kMostErrors = 100;     // likewise
constexpr std::size_t kMostPlaces = 20'000;  // of logs, as they were left
constexpr const char* kAllLogs = "watch.logs and watch.kernel_logs";
constexpr std::size_t kPiece = 1u << 20;
constexpr std::size_t kMostAPoll = 16u << 20;  // bytes of all logs
constexpr Duration kSilence = 3s;

std::string key_of(const RunName& run) {
  return "log:" + run.text + ":";
}

// What stands for %N in a path that the pattern gave.
std::string node_of(const std::string& pattern, const std::string& path) {
  const auto at = pattern.find("%N");
  if (at == std::string::npos) return "";
  const auto behind = pattern.size() - at - 2;
  if (path.size() <= at + behind) return "";
  return path.substr(at, path.size() - at - behind);
}

bool is_failure(const wire::AgentBody& body) {
  if (const auto* exited = std::get_if<wire::RankExited>(&body)) return !exited->expected;
  return std::holds_alternative<wire::AttemptEnded>(body) ||
         std::holds_alternative<wire::AgentLost>(body);
}

}  // namespace

LogWatch::LogWatch(const core::RunPolicy& policy, bool network,
                   const std::vector<core::Cursor>& cursors, LogKnowledge& knowledge)
    : policy_(policy), network_(network), knowledge_(knowledge) {
  const std::string key = key_of(policy.run);
  for (const core::Cursor& cursor : cursors) {
    if (!cursor.path.starts_with(key)) continue;
    const std::string path = cursor.path.substr(key.size());
    known_ = known_ || path.empty();
    if (!path.empty()) cursors_[path] = cursor;
  }
  if (!core::has_agents(policy)) script_.emplace(policy, cursors);
}

void LogWatch::set_generation(Generation live, Instant now) {
  if (!script_) return;
  script_->set_generation(live, now, wall_now());
  if (live.value != 0) begin_attempt(Attempt{});
}

// True when there is something to read with.
bool LogWatch::take_up(std::vector<core::Input>& out) {
  if (scan_) return true;
  std::vector<std::string> wrong;
  auto detector = knowledge_.with(policy_.watch.signatures, wrong);
  for (const std::string& what : wrong) note("watch.signatures", "not used: " + what, out);
  if (!detector) return false;
  scan_ = std::make_unique<diagnose::LiveScan>(std::move(detector));
  scan_->set_nodes(nodes_);
  return true;
}

void LogWatch::poll(Instant now, std::vector<core::Input>& inputs, const watch::Gate& gate) {
  std::vector<core::Input> out;
  more_ = false;
  if (!looked_ || now - *looked_ >= (script_ ? kLookForScriptLogs : kLookForLogs)) {
    looked_ = now;
    find_logs(out, gate);
  }
  read_logs(now, out, gate);
  bool looked = false;
  for (core::Input& input : inputs) {
    const auto* said = std::get_if<core::AgentSaid>(&input.body);
    const bool ours = said != nullptr && said->generation >= generation_;
    if (ours && !looked && is_failure(said->event.body)) {
      if (const auto* exited = std::get_if<wire::RankExited>(&said->event.body))
        last_words(*exited);
      tell(out);
      looked = true;
    }
    out.push_back(input);
    if (!ours) continue;
    if (const auto* kernel = std::get_if<wire::KernelLine>(&said->event.body);
        kernel && take_up(out))
      scan_->lines({"kernel of " + kernel->node.text, true, kernel->node.text}, 0,
                   kernel->text + "\n");
    if (const auto* started = std::get_if<wire::GenerationStarted>(&said->event.body)) {
      generation_ = said->generation;
      begin_attempt(Attempt{});
      nodes_.clear();
      for (const NodeName& node : started->nodes) nodes_.push_back(node.text);
      if (scan_) scan_->set_nodes(nodes_);
      looked_.reset();
    }
    if (const auto* started = std::get_if<wire::AttemptStarted>(&said->event.body))
      begin_attempt(started->attempt);
  }
  tell(out);
  heed_silence(now);
  tell_progress(now, false, out, gate);
  if (!scan_) looked_.reset();  // the patterns are still being compiled
  inputs = std::move(out);
}

void LogWatch::begin_attempt(Attempt attempt) {
  attempt_ = attempt;
  failed_ = false;
  silence_ = kSilence;
  if (scan_) scan_->forget();
  for (auto& [path, log] : logs_) {
    const core::Cursor cursor = log.tail.cursor();
    log.offset = cursor.offset;
    log.line = cursor.line;
  }
}

void LogWatch::find_logs(std::vector<core::Input>& out, const watch::Gate& gate) {
  if (!opens(gate, watch::Part::Own)) return;
  Generation newest = generation_;
  if (const auto names = os::list_directory(policy_.directory))
    for (const auto& name : *names)
      if (const auto generation = wire::parse_generation_name(name))
        newest = std::max(newest, *generation);
  if (newest > generation_) generation_ = newest;
  const std::string folder = wire::generation_name(generation_);
  const std::string main = policy_.directory + "/" + folder + "/main.log";
  std::erase_if(logs_, [&](const auto& log) {
    return log.first.starts_with(policy_.directory + "/gen-") && log.first != main;
  });
  if (generation_.value > 0 && os::exists(main) && take_up(out))
    follow(main, {folder + "/main.log", false, ""}, false);
  if (opens(gate, watch::Part::Logs)) find_named(main, out);
}

void LogWatch::find_named(const std::string& main, std::vector<core::Input>& out) {
  const auto& [logs, kernel_logs] = std::tie(policy_.watch.logs, policy_.watch.kernel_logs);
  const std::size_t room = room_.most();
  const LogChoice choice = choose_logs(logs, kernel_logs, room);
  if (choice.found > choice.logs.size()) leave_others(choice, main);
  std::vector<std::string> begun;
  for (const FoundLog& found : choice.logs) {
    if (logs_.contains(found.path) || !take_up(out)) continue;
    follow(found.path, {found.path, found.kernel, node_of(found.pattern, found.path)}, !known_);
    if (!cursors_.contains(found.path)) begun.push_back(found.path);
  }
  tell_followed(begun, out);
  // Gone since it was read: it may have been renamed, and still grow.
  const auto add_gone = [&](const std::string& pattern, bool kernel) {
    for (const auto& [path, cursor] : cursors_)
      if (!logs_.contains(path) && logs_.size() < room &&
          ::fnmatch(with_star(pattern).c_str(), path.c_str(), FNM_PATHNAME) == 0 && take_up(out))
        follow(path, {path, kernel, node_of(pattern, path)}, false);
  };
  for (const std::string& pattern : logs) add_gone(pattern, false);
  for (const std::string& pattern : kernel_logs) add_gone(pattern, true);
  room_.take(logs_.size());
  tell_left_out(choice, out);
  if (known_ || (logs.empty() && kernel_logs.empty())) return;
  known_ = true;
  note(kAllLogs,
       fmt::format("{} logs are there; those to come are read from their beginning", choice.found),
       out);
  core::Cursor marker;
  marker.path = key_of(policy_.run);
  out.back().cursors.push_back(std::move(marker));
}

// Others are more important now. One that is followed again later goes on where it was left.
void LogWatch::leave_others(const LogChoice& choice, const std::string& main) {
  std::set<std::string_view> chosen{main};
  for (const FoundLog& found : choice.logs) chosen.insert(found.path);
  std::erase_if(logs_, [&](const auto& entry) {
    const auto& [path, log] = entry;
    if (chosen.contains(path)) return false;
    core::Cursor cursor = log.tail.cursor();
    cursor.parser_state = to_json_text(
        Place{generation_, attempt_, cursor.offset, cursor.line, scan_ ? scan_->reported() : ""});
    if (cursors_.size() < kMostPlaces) cursors_.insert_or_assign(path, std::move(cursor));
    return true;
  });
}

void LogWatch::tell_followed(const std::vector<std::string>& paths, std::vector<core::Input>& out) {
  const char* how = known_ ? "followed" : "followed from its present end";
  followed_.all += paths.size();
  if (known_ && followed_.all > kMostNamed) {
    if (paths.empty() || !followed_.doubled()) return;
    return note(kAllLogs,
                fmt::format("{} logs were followed since this daemon began, {} is the newest; the "
                            "next are reported when they are twice as many",
                            followed_.all, paths.back()),
                out);
  }
  if (paths.size() <= kNamed) {
    for (const std::string& path : paths) note(path, how, out);
    return;
  }
  if (known_ && left_out_ > 0) return;  // who makes so many logs makes no events, too
  note(kAllLogs, fmt::format("{} logs are {}, {} is one", paths.size(), how, paths.front()), out);
  for (const std::string& path : paths)
    out.back().cursors.push_back(cursor_of(path, logs_.at(path)));
}

void LogWatch::tell_left_out(const LogChoice& choice, std::vector<core::Input>& out) {
  for (const Error& error : choice.too_wide)
    if (too_wide_.insert(error.object).second)
      note(error.object, "not followed: " + Error{error.what, "", error.hint}.message(), out);
  const std::size_t left_out = choice.found - choice.logs.size();
  if (left_out > 2 * left_out_)
    note(kAllLogs,
         fmt::format("{} of {} logs are not followed: the limit of open files leaves room for {}; "
                     "your own and the newest come first",
                     left_out, choice.found, choice.logs.size()),
         out);
  if (left_out > 2 * left_out_ || left_out == 0) left_out_ = left_out;
}

void LogWatch::follow(const std::string& path, diagnose::LiveSource source, bool from_end) {
  if (logs_.contains(path)) return;
  watch::TailOptions options;
  if (network_) options.hole_grace = 5s;
  options.from_end = from_end;
  options.of_system = source.kernel_log;
  std::optional<core::Cursor> cursor;
  Place place;
  if (const auto known = cursors_.find(path); known != cursors_.end()) {
    cursor = known->second;
    cursor->path = path;
    if (const auto read = from_json_text<Place>(cursor->parser_state, path)) place = *read;
    if (place.generation == generation_) {
      attempt_ = std::max(attempt_, place.attempt);
      scan_again(path, *cursor, place, source);
      scan_->set_reported(place.reported);
    }
    cursor->parser_state.clear();
  }
  logs_.emplace(path, Log{watch::LineTail(path, options, cursor), std::move(source), place.offset,
                          place.line, false});
}

// What the process before had read of this attempt. Nothing new comes of it.
void LogWatch::scan_again(const std::string& path, const core::Cursor& cursor, const Place& place,
                          const diagnose::LiveSource& source) {
  const auto file = watch::open_regular(path);
  if (!file || !*file || (**file).inode != cursor.inode) return;
  std::string rest;
  std::uint64_t line = place.line;
  for (std::uint64_t at = place.offset; at < cursor.offset;) {
    const auto piece =
        watch::read_at((**file).fd.get(), at, std::min<std::uint64_t>(kPiece, cursor.offset - at));
    if (!piece || piece->empty()) return;
    at += piece->size();
    rest += *piece;
    const auto end = rest.rfind('\n') + 1;
    if (end == 0 && rest.size() < kPiece) continue;
    const std::string block = rest.substr(0, end == 0 ? rest.size() : end);
    rest.erase(0, block.size());
    scan_->lines(source, line, block);
    line += static_cast<std::uint64_t>(std::count(block.begin(), block.end(), '\n'));
  }
}

// Our own log first, then the others in turn: who may make logs makes any number of long ones, and
// the agents are heard between two polls.
void LogWatch::read_logs(Instant now, std::vector<core::Input>& out, const watch::Gate& gate) {
  if (!opens(gate, watch::Part::Own)) return;
  std::size_t bytes = 0;
  std::vector<Log*> others;
  const auto first = logs_.lower_bound(next_);
  const auto take = [&](auto begin, auto end) {
    for (auto it = begin; it != end; ++it)
      if (it->first.starts_with(policy_.directory + "/gen-"))
        bytes += read(it->second, now, out);
      else
        others.push_back(&it->second);
  };
  take(first, logs_.end());
  take(logs_.begin(), first);
  for (Log* log : others) {
    if (!opens(gate, watch::Part::Logs)) return;
    if (bytes >= kMostAPoll) {
      next_ = log->tail.path();
      more_ = true;
      return;
    }
    bytes += read(*log, now, out);
  }
}

// How many bytes it has gained.
std::size_t LogWatch::read(Log& log, Instant now, std::vector<core::Input>& out) {
  const watch::TailRead read = log.tail.poll(now);
  more_ = more_ || read.more;
  if (read.restarted) log.offset = log.line = 0;
  if (read.error && !log.told_error) tell_error(log.tail.path(), read.error->message(), out);
  log.told_error = read.error.has_value();
  if (read.lines.empty()) return 0;
  grew_ = now;
  std::string block;
  for (const watch::TailLine& line : read.lines) {
    block += line.text;
    block += '\n';
    if (script_ && !log.source.kernel_log)
      script_->line(log.tail.path(), line.text, now, wall_now());
  }
  scan_->lines(log.source, read.lines.front().number - 1, block);
  return block.size();
}

void LogWatch::tell_error(const std::string& path, const std::string& what,
                          std::vector<core::Input>& out) {
  if (++errors_.all <= kMostErrors) return note(path, what, out);
  if (errors_.doubled())
    note(kAllLogs,
         fmt::format("{} logs could not be read so far, the newest: {}", errors_.all, what), out);
}

void LogWatch::heed_silence(Instant now) {
  if (!failed_ || !grew_ || now - *grew_ < silence_) return;
  grew_.reset();
  silence_ *= 2;
  ++silences_;
}

// A rank's end may be reported before its last lines have reached main.log.
void LogWatch::last_words(const wire::RankExited& exited) {
  std::vector<core::Input> ignored;
  if (exited.last_lines.empty() || !take_up(ignored)) return;
  std::string block;
  std::string_view rest = exited.last_lines;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    block += fmt::format("[{}:{}] {}\n", exited.node.text, exited.rank.value, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  scan_->lines({fmt::format("last lines of rank {}", exited.rank.value), false, exited.node.text},
               0, block);
}

void LogWatch::tell(std::vector<core::Input>& out) {
  if (!scan_) return;
  auto news = scan_->news();
  if (!news) return;
  failed_ = news->fatal;
  core::Input input{
      policy_.run, diagnose::as_event<core::Diagnosed>(*news, generation_, attempt_), {}};
  for (const auto& [path, log] : logs_) input.cursors.push_back(cursor_of(path, log));
  out.push_back(std::move(input));
}

void LogWatch::tell_progress(Instant now, bool at_once, std::vector<core::Input>& out,
                             const watch::Gate& gate) {
  if (!script_ || !opens(gate, watch::Part::Logs)) return;
  auto digest = script_->poll(now, at_once);
  if (!digest) return;
  core::Input input{policy_.run, *std::move(digest), {script_->cursor()}};
  for (const auto& [path, log] : logs_) input.cursors.push_back(cursor_of(path, log));
  out.push_back(std::move(input));
}

void LogWatch::note(const std::string& path, const std::string& detail,
                    std::vector<core::Input>& out) {
  core::Input input{policy_.run, core::LogFollowed{path, detail}, {}};
  for (const auto& [name, log] : logs_)
    if (name == path) input.cursors.push_back(cursor_of(name, log));
  out.push_back(std::move(input));
}

core::Cursor LogWatch::cursor_of(const std::string& path, const Log& log) const {
  core::Cursor cursor = log.tail.cursor();
  cursor.path = key_of(policy_.run) + path;
  cursor.parser_state = to_json_text(
      Place{generation_, attempt_, log.offset, log.line, scan_ ? scan_->reported() : ""});
  return cursor;
}

}  // namespace stoker::daemon
