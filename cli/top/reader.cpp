// A look at the site's files; each of them hostile, limited and parsed as `stoker status` does it.
#include "cli/top/reader.hpp"

#include <sys/stat.h>

#include "cli/doctor/failing_sinks.hpp"
#include "cli/read/held_alerts.hpp"
#include "cli/top/run_order.hpp"
#include "wire/lineage.hpp"

namespace stoker::cli::top {
namespace {

constexpr std::size_t kEvents = 300, kDecisions = 50, kLogLines = 300;
constexpr std::size_t kLogLine = 2048;          // bytes of a line that are shown
constexpr std::uint64_t kLookBack = 16u << 20;  // for decisions among other events
constexpr int kBeatLines = 200;                 // at the end of lead.jsonl
constexpr Duration kPatience = 2s;              // with a daemon that is slow for a moment

template <class T>
void keep_last(std::deque<T>& items, std::size_t count) {
  while (items.size() > count) items.pop_front();
}

}  // namespace

Reader::Stamp Reader::stamp_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec,
          static_cast<std::uint64_t>(info.st_size), info.st_ino};
}

bool Reader::changed(const std::string& path) {
  const Stamp stamp = stamp_of(path);
  const auto [known, fresh] = stamps_.try_emplace(path, stamp);
  if (!fresh && known->second == stamp) return false;
  known->second = stamp;
  return true;
}

const View& Reader::look(const Selection& selection, WallTime now) {
  view_.now = now;
  look_at_daemon(now);
  look_at_site();
  look_at_runs(now);
  view_.unreadable.clear();
  if (!site_trouble_.empty()) view_.unreadable.push_back(site_trouble_);
  for (const auto& [run, document] : documents_)
    if (!document) view_.unreadable.push_back(document.error().message());
  const bool open = selection.page != Page::Runs;
  if (!open) return view_;
  if (view_.detail.run != selection.run) open_run(selection.run);
  view_.detail.trouble.clear();
  if (open_.run.empty()) return view_;
  if (selection.page == Page::Why || selection.page == Page::Events) look_at_events();
  if (selection.page == Page::Logs) look_at_log();
  if (selection.page == Page::Nodes) {
    look_at_nodes();
    look_at_beat(now);
  }
  return view_;
}

// One late answer of a busy machine is not worth a banner.
void Reader::look_at_daemon(WallTime now) {
  view_.trouble.clear();
  const Reach reach = daemon_reach(view_.state, &view_.trouble);
  if (reach != Reach::Silent && reach != Reach::Busy) {
    silent_since_.reset();
    view_.reach = reach;
    return;
  }
  if (!silent_since_) silent_since_ = now;
  view_.silent = now - *silent_since_;
  if (view_.silent >= kPatience) view_.reach = reach;
}

void Reader::look_at_site() {
  const std::string folder = view_.state + "/published";
  if (changed(folder + "/site.json")) {
    const auto site = published_site(view_.state);
    site_trouble_ = site ? "" : site.error().message();
    if (site) {
      runs_ = site->runs;
      view_.alerts = site->alerts;
    }
  }
  if (changed(folder + "/held.json"))
    view_.held = held_alerts(view_.state).value_or(std::vector<wire::HeldAlert>{});
  if (!changed(folder + "/sinks.json")) return;
  const auto sinks = failing_sinks(view_.state);
  view_.sinks = sinks.value_or(std::vector<wire::FailingSink>{});
}

void Reader::look_at_runs(WallTime now) {
  std::map<std::string, Result<wire::StatusDocument>> documents;
  for (const wire::SiteRun& run : runs_) {
    const bool own = changed(run.directory + "/status.json");
    const bool copy = !run.copy.empty() && changed(run.copy + "/status.json");
    const auto known = documents_.find(run.run);
    if (!own && !copy && known != documents_.end())
      documents.insert_or_assign(run.run, std::move(known->second));
    else
      documents.insert_or_assign(run.run, read_run(run, own && known != documents_.end()));
  }
  documents_ = std::move(documents);
  view_.runs.clear();
  for (const auto& [name, document] : documents_) {
    if (!document) continue;
    view_.runs.push_back(*document);
    view_.runs.back().run = name;
    view_.runs.back().stale = is_stale(*document, view_.reach, now);
  }
}

// What was just written into the run directory needs no second copy.
Result<wire::StatusDocument> Reader::read_run(wire::SiteRun run, bool own_is_fresh) const {
  const std::string copy = own_is_fresh ? std::exchange(run.copy, "") : "";
  auto status = read_status(run, view_.reach);
  if (status || copy.empty()) return status;
  run.copy = copy;
  return read_status(run, view_.reach);
}

void Reader::look_at_nodes() {
  if (changed(view_.state + "/published/nodes.jsonl")) {
    auto nodes = published_nodes(view_.state);
    nodes_trouble_ = nodes ? "" : nodes.error().message();
    if (nodes) view_.nodes = *std::move(nodes);
  }
  if (!nodes_trouble_.empty()) view_.detail.trouble.push_back(nodes_trouble_);
}

void Reader::open_run(const std::string& run) {
  view_.detail = Detail{};
  view_.detail.run = run;
  events_.reset();
  log_.reset();
  beat_path_.clear();
  open_ = {};
  for (const wire::SiteRun& known : runs_)
    if (known.run == run) open_ = known;
}

void Reader::look_at_events() {
  Detail& detail = view_.detail;
  const auto take = [&detail](const wire::PublishedEvent& event) {
    detail.events.push_back(event);
    detail.events.back().event = {};  // not shown, and large
    keep_last(detail.events, kEvents);
  };
  Status read = ok();
  if (!events_) {
    auto file = EventFile::open(open_.directory);
    if (!file) return detail.trouble.push_back(file.error().message());
    auto decisions = file->newest(kDecisions, is_decision, kLookBack);
    if (!decisions) return detail.trouble.push_back(decisions.error().message());
    detail.decisions.assign(decisions->begin(), decisions->end());
    events_.emplace(*std::move(file));
    read = events_->read(std::nullopt, kEvents, take);
  } else {
    read = events_->follow([&](const wire::PublishedEvent& event) {
      take(event);
      if (!is_decision(event)) return;
      detail.decisions.push_back(event);
      keep_last(detail.decisions, kDecisions);
    });
  }
  if (!read) detail.trouble.push_back(read.error().message());
}

void Reader::look_at_log() {
  Detail& detail = view_.detail;
  const auto take = [&detail](const LogLine& line) {
    detail.log.emplace_back(line.whole.substr(0, kLogLine));
    keep_last(detail.log, kLogLines);
  };
  Status read = ok();
  if (log_) {
    read = log_->more(take);
  } else {
    log_ = std::make_unique<LogFollow>(open_.directory, LogFilter{});
    read = log_->last(kLogLines, false, take);
    if (!read) log_.reset();
  }
  if (!read) detail.trouble.push_back(read.error().message());
}

// The lead's newest beat: the last line but few of its file.
void Reader::look_at_beat(WallTime now) {
  Detail& detail = view_.detail;
  const auto* run = run_named(view_, open_.run);
  if (run == nullptr || run->generation == 0) return;
  const std::string path =
      open_.directory + "/" + wire::generation_name(Generation(run->generation)) + "/lead.jsonl";
  if (path != beat_path_) detail.beat.reset();
  const bool fresh = path != beat_path_;
  beat_path_ = path;
  const Stamp stamp = stamp_of(path);
  const WallTime written{Duration(stamp.changed_ns)};
  if (written < now) detail.beat_age = now - written;
  if (!changed(path) && !fresh) return;
  const auto file = LineFile::open(path);
  if (!file) return;  // an adopted script has no agents
  int left = kBeatLines;
  const auto read = file->backward([&](std::string_view line) {
    const auto event = wire::parse_event_line(line, path);
    const auto* beat = event ? std::get_if<wire::Beat>(&event->body) : nullptr;
    if (beat != nullptr) detail.beat = *beat;
    return beat == nullptr && --left > 0;
  });
  if (!read) detail.trouble.push_back(read.error().message());
}

}  // namespace stoker::cli::top
