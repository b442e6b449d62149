// Daemon, publishing: each journal row to its run's events.jsonl, the state to status.json, the
// site to <state>/published. Written on the runs' mount threads; what could not be written is made
// again from the journal.
#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/asio/post.hpp>

#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"
#include "common/os/room.hpp"
#include "core/operators/silences.hpp"
#include "core/publish/status.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"
#include "wire/sinks.hpp"
#include "wire/site.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
constexpr std::size_t kPage = 500;  // rows read at once when catching up
// A status.json whose run shows nothing new but its age is written this often: well below the age
// at which readers call it stale.
constexpr Duration kRewrite = 40s;

// What rows of this run may be called.
std::vector<RunName> names_of(const RunName& name, const std::vector<core::NameChange>& changes) {
  std::vector<RunName> names{name};
  for (const core::NameChange& change : changes)
    if (!name.empty() && core::current_name(change.from, change.seq, changes) == name)
      names.push_back(change.from);
  return names;
}

bool is_of(const core::JournalRow& row, const RunName& name,
           const std::vector<core::NameChange>& changes) {
  if (row.event.run.empty() || name.empty()) return row.event.run == name;
  return core::current_name(row.event.run, row.seq, changes) == name;
}

// Of two documents of a run: they differ in more than the time that has passed.
bool differ(wire::StatusDocument before, const wire::StatusDocument& now) {
  before.published = now.published;
  before.progress_age_s = now.progress_age_s;
  before.eta_s = now.eta_s;
  before.forecast = now.forecast;
  before.spend = now.spend;
  if (before.checkpoint && now.checkpoint) before.checkpoint->age_s = now.checkpoint->age_s;
  if (before.archive && now.archive) before.archive->age_s = now.archive->age_s;
  return !(before == now);
}

// The publisher learns by writing whether there is room again.
bool is_without_room(const wire::StatusDocument& status) {
  const auto& all = status.conditions;
  return std::find(all.begin(), all.end(), "disk_full") != all.end();
}

// Of the state directory: there is room where a run directory has none.
std::string copy_of(const std::string& published, const std::string& run) {
  return published + "/runs/" + run;
}

Status write_copy(const std::string& folder, const wire::StatusDocument& status) {
  STOKER_TRY_STATUS(os::make_directories(folder));
  for (const std::string& path : {folder.substr(0, folder.rfind('/')), folder})
    STOKER_TRY_STATUS(os::set_mode(path, 0711, "cannot open it to readers"));  // of `published`
  return os::publish_file(folder + "/status.json", to_json_text(status) + "\n",
                          os::Durability::Cached);
}

Status write_site(const std::string& directory, const SiteView& view) {
  wire::SiteDocument site;
  site.alerts = view.alerts;
  site.silences = view.silences;
  std::string nodes;
  Json alerts = Json::array();
  const auto add = [&alerts](const std::string& run, const std::vector<wire::StatusAlert>& open) {
    for (const auto& alert : open) {
      Json entry(alert);
      entry["run"] = run;
      alerts.push_back(std::move(entry));
    }
  };
  add("", view.alerts);
  for (const auto& run : view.runs) {
    site.runs.push_back({run.run, run.directory, copy_of(directory, run.run)});
    add(run.run, run.alerts);
  }
  for (const auto& node : view.nodes) nodes += to_json_text(node) + "\n";
  const auto write = [&](const char* name, const std::string& text) {
    return os::publish_file(directory + name, text, os::Durability::Cached);
  };
  STOKER_TRY_STATUS(write("/site.json", to_json_text(site) + "\n"));
  STOKER_TRY_STATUS(write("/nodes.jsonl", nodes));
  STOKER_TRY_STATUS(write("/sinks.json", to_json_text(view.failing) + "\n"));
  STOKER_TRY_STATUS(write("/held.json", to_json_text(view.held) + "\n"));
  STOKER_TRY_STATUS(write("/health.json", to_json_text(view.health) + "\n"));
  return write("/alerts.json", dump_json(alerts) + "\n");
}

}  // namespace

Status NameHistory::read_on(SqliteJournal& journal) {
  for (;;) {
    STOKER_TRY(rows, journal.asked_rows_after(upto, kPage));
    for (const core::JournalRow& row : rows)
      if (auto change = core::name_change_of(row)) changes.push_back(*std::move(change));
    if (!rows.empty()) upto = rows.back().seq;
    if (rows.size() < kPage) break;
  }
  upto = std::max(upto, journal.last_sequence());
  return ok();
}

void Daemon::publish_rows(const std::vector<core::JournalRow>& rows) {
  std::map<RunName, std::vector<core::JournalRow>> by_run;
  for (const auto& row : rows) by_run[row.event.run].push_back(row);
  for (auto& [name, mine] : by_run) {
    const auto found = runs_.find(name);
    WatchedRun* run = name.empty() ? &site_ : found == runs_.end() ? nullptr : &found->second;
    if (run == nullptr || run->mount == nullptr) continue;
    run->mount->post(
        [publisher = run->publisher, caught_up = run->caught_up, mine = std::move(mine)] {
          if (*caught_up && !publisher->append(mine)) *caught_up = false;
        },
        {name, watch::Part::Published});
  }
}

// Reads what the file lacks from the journal, page by page; the last page ends it. Rows that come
// in between are in the journal too: they were posted before, or follow after.
void Daemon::catch_up(const RunName& name, WatchedRun& run) {
  if (run.mount == nullptr || run.moving) return;
  const RunPart part{name, watch::Part::Published};
  const auto begin = [this, name, part, publisher = run.publisher, caught_up = run.caught_up,
                      mount = run.mount] {
    if (*caught_up) return;
    if (const auto opened = publisher->open(); !opened) {
      if (!os::is_no_room(opened.error()))
        log(LogLevel::Warning, "cannot publish: " + opened.error().message());
      return;
    }
    turns_->inspect([this, name, part, publisher, caught_up, mount,
                     from = publisher->wanted_after(),
                     published = publisher->last()](core::Engine&, SqliteJournal& journal) {
      const Sequence newest = journal.last_sequence();
      if (published > newest) {
        log(LogLevel::Warning,
            fmt::format("{}/events.jsonl contains row {}, but the journal ends with row {}: "
                        "the rows between are lost (a damaged -wal, or an older journal)",
                        publisher->directory(), published.value, newest.value));
        asio::post(io_, [publisher, mount, part] {
          mount->post([publisher] { (void)publisher->start_over(wall_now()); }, part);
        });
      }
      if (const auto read = names_.read_on(journal); !read)
        return log(LogLevel::Warning, read.error().message());
      const auto names = names_of(name, names_.changes);
      for (Sequence after = published > newest ? Sequence(0) : from;;) {
        auto rows = journal.intact_rows_of(names, after, kPage);
        if (!rows) return log(LogLevel::Warning, rows.error().message());
        const bool last = rows->size() < kPage;
        if (!rows->empty()) after = rows->back().seq;
        std::erase_if(*rows, [&](const auto& row) { return !is_of(row, name, names_.changes); });
        for (core::JournalRow& row : *rows) row.event.run = name;  // it may have had another
        asio::post(io_, [publisher, caught_up, mount, part, last, rows = std::move(*rows)] {
          const auto append = [publisher, caught_up, last, rows] {
            *caught_up = publisher->append(rows).has_value() && last;
          };
          mount->post(append, part);
        });
        if (last) return;
      }
    });
  };
  run.mount->post(begin, part);
}

// The engine's thread makes the documents, the loop keeps them for the page, the mounts write them.
// Changed: only of runs that have new rows, so that a step of one run costs no look at a thousand.
void Daemon::render(Scope scope) {
  if (rendering_ || !started_) return;
  rendering_ = true;
  dirty_ = false;
  turns_->inspect([this, scope, before = view_, changed = std::exchange(changed_, {})](
                      core::Engine& engine, SqliteJournal& journal) {
    auto view = std::make_shared<SiteView>();
    const Instant now = foundation_.clock->now();
    const WallTime wall = wall_now();
    const bool all = scope == Scope::All || changed.contains(RunName());  // the site's rows
    auto old = before->runs.begin();
    for (const auto& [name, run] : engine.state().runs) {
      while (old != before->runs.end() && old->run < name.text) ++old;
      const bool known = old != before->runs.end() && old->run == name.text;
      if (known && !all && !changed.contains(name)) {
        view->runs.push_back(*old);
        continue;
      }
      view->runs.push_back(core::status_of(engine.state(), run, now, wall));
      view->made[name.text] = !known || changed.contains(name) || differ(*old, view->runs.back());
    }
    view->nodes = core::nodes_of(engine.state(), now);
    view->alerts = core::alerts_of(engine.state(), RunName{});
    view->silences = core::silences_of(engine.state());
    view->held = core::silenced_alerts(engine.state(), now);
    view->health.journal_rows = journal.last_sequence().value;
    view->health.scheduler_trouble =
        engine.state().blind_since ? engine.state().blind_why : std::string();
    asio::post(io_, [this, view] { take_view(view); });
  });
}

// A view went through the engine's thread and back: the pass is complete. What stands in the way
// of observing a run goes to its dead-man's switch.
void Daemon::note_pass() {
  std::vector<alerts::ObservedRun> observed;
  for (const auto& status : view_->runs) {
    const auto run = runs_.find(RunName(status.run));
    if (run == runs_.end()) continue;
    std::string trouble;
    if (!trouble_.empty())
      trouble = "the journal cannot be written: " + trouble_;
    else if (run->second.unread)
      trouble = "the run directory " + run->second.policy.directory + " does not answer";
    else if (!view_->health.scheduler_trouble.empty())
      trouble = "the scheduler gives no answers: " + view_->health.scheduler_trouble;
    observed.push_back({run->first, run->second.policy.alerts, trouble,
                        fmt::format("{} is {}: {}", status.run, status.state, status.reason)});
  }
  alerts_->passed(observed);
}

// What is new, and now and then also what is not, to the runs' directories and to the site's.
void Daemon::write_view(const SiteView& view) {
  const Instant now = monotonic_now();
  std::vector<wire::StatusDocument> copies;
  for (const auto& status : view.runs) {
    const auto found = runs_.find(RunName(status.run));
    const auto made = view.made.find(status.run);
    if (made == view.made.end() || found == runs_.end() || found->second.mount == nullptr) continue;
    WatchedRun& run = found->second;
    const bool moves = made->second || view.parts.at(status.run).live.has_value();
    if (!moves && !goodbye_ && !is_without_room(status) && now - run.written_at < kRewrite)
      continue;
    run.written_at = run.moving ? Instant{} : now;
    copies.push_back(status);
    if (run.moving) continue;
    const auto write = [this, publisher = run.publisher, status, name = found->first] {
      if (!publisher->write_status(status))  // its copy is written in any case
        asio::post(io_, [this, name] {
          const auto there = runs_.find(name);
          if (there != runs_.end()) there->second.written_at = {};
        });
      if (const auto news = publisher->room_news()) turns_->submit({{name, *news, {}}});
    };
    run.mount->post(write, {found->first, watch::Part::Published});
    catch_up(found->first, run);
  }
  catch_up({}, site_);
  const auto write = [directory = site_.publisher->directory(), site = view_, copies] {
    if (const auto written = write_site(directory, *site); !written)
      log(LogLevel::Warning, written.error().message());
    for (const auto& status : copies)
      if (const auto copied = write_copy(copy_of(directory, status.run), status); !copied)
        log(LogLevel::Warning, copied.error().message());
  };
  site_.mount->post(write, {{}, watch::Part::Published});
}

void Daemon::take_view(std::shared_ptr<SiteView> view) {
  rendering_ = false;
  for (auto& status : view->runs) {
    const auto run = runs_.find(RunName(status.run));
    const bool made = view->made.contains(status.run);
    if (made && !trouble_.empty()) status.conditions.emplace_back("journal_stuck");
    if (run == runs_.end() || run->second.mount == nullptr) continue;
    RunParts& parts = view->parts[status.run];
    parts.history = run->second.publisher->history();
    if (const auto before = view_->parts.find(status.run); !made && before != view_->parts.end())
      parts.live = before->second.live;
    if (!made) continue;
    if (const auto live = run->second.mount->live(run->first);
        live && live->generation.value == status.generation) {
      core::lay_over(status, live->beat, foundation_.clock->now() - live->at);
      parts.live = live->beat;
    }
  }
  view->health.build = "stoker " STOKER_VERSION;
  view->health.epoch = foundation_.possession->epoch().value;
  view->health.uptime_s = to_seconds(monotonic_now() - started_at_);
  view->health.effects_waiting = effects_->waiting();
  view->health.journal_trouble = trouble_;
  view->health.published = format_rfc3339(wall_now(), true);
  for (const auto& [name, run] : runs_)
    for (auto& sink : alerts_->failing(name.text, run.policy.alerts))
      view->failing.push_back(std::move(sink));
  for (auto& held : alerts_->held()) view->held.push_back(std::move(held));
  view_ = view;
  note_pass();
  write_view(*view);
  std::size_t held = 0;
  for (const auto& status : view->runs) held += status.state == "held" ? 1 : 0;
  if (trouble_.empty()) notifier_.status(fmt::format("{} runs, {} held", view->runs.size(), held));
  if (!goodbye_) return;
  // The last output is written: let the mounts finish and exit.
  auto left = std::make_shared<std::size_t>(mounts_.size());
  for (auto& [place, mount] : mounts_)
    mount->post([this, left] {
      asio::post(io_, [this, left] {
        if (--*left == 0) io_.stop();
      });
    });
}

}  // namespace stoker::daemon
