// Daemon, seeing: what a turn means for watchers, observers and publishers, and the journal's
// troubles.
#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "common/os/mount_point.hpp"
#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"
#include "core/supply/scheduler_traits.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"
#include "daemon/loop/real_path.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;

bool moves_jobs(const core::JournalRow& row) {
  const auto* done = std::get_if<core::EffectDone>(&row.event.body);
  return done != nullptr &&
         (done->action == core::Submit::kKind || done->action == core::Cancel::kKind ||
          done->action == core::RunFollower::kKind);
}

// A run directory that an older version or a killed daemon left behind.
void prepare_run_directory(const core::RunPolicy& policy) {
  if (const auto closed = close_run_directory(policy); !closed)
    log(LogLevel::Error, policy.run.text + ": nothing is submitted: " + closed.error().message());
  for (const char* folder : {"", "/orders", "/claims"})
    os::sweep_aside_files(policy.directory + folder);
  const auto names = os::list_directory(policy.directory);
  for (const std::string& name : names.value_or(std::vector<std::string>{}))
    if (wire::parse_generation_name(name))  // orders are in it, with train.environment
      (void)os::set_mode(policy.directory + "/" + name + "/start.json", 0600, "cannot close it");
}

void prepare(MountThread& mount, const core::RunPolicy& policy) {
  mount.post([policy] { prepare_run_directory(policy); }, {policy.run, watch::Part::Own});
  mount.post([folder = policy.directory + "/switch"] { os::sweep_aside_files(folder); },
             {policy.run, watch::Part::Switches});
}

void log_row(const core::JournalRow& row) {
  if (row.decision.reason.empty()) return;
  const bool moved = row.decision.from != row.decision.to;
  log(row.decision.rejected ? LogLevel::Warning : LogLevel::Info,
      fmt::format("{}{}{}{}", row.event.run.text, row.event.run.empty() ? "" : ": ",
                  moved ? fmt::format("{} -> {}: ", row.decision.from, row.decision.to) : "",
                  row.decision.reason));
}

}  // namespace

void Daemon::on_turn(TurnReport report) {
  publish_rows(report.rows);
  bool moved = drop_missing(report.runs);
  for (const auto& [name, brief] : report.runs) moved = take_up(brief) || moved;
  bool shown_at_once = false;  // who has asked for something looks next whether it is done
  for (const core::JournalRow& row : report.rows) {
    log_row(row);
    changed_.insert(row.event.run);
    shown_at_once = shown_at_once || row.decision.from != row.decision.to ||
                    std::holds_alternative<core::OperatorAsked>(row.event.body);
    if (moves_jobs(row))
      for (auto& [place, observer] : observers_) observer->kick();
  }
  rows_ += report.rows.size();
  if (moved) observe(report.runs);
  dirty_ = dirty_ || !report.rows.empty();
  if (!std::exchange(started_, true)) {
    notifier_.ready(fmt::format("{} runs", runs_.size()));
    log(LogLevel::Notice,
        fmt::format("ready: {} runs, epoch {}, state in {}", runs_.size(),
                    foundation_.possession->epoch().value, foundation_.state_directory));
    if (!options_.run_file.empty()) ask_run_file(options_.run_file);
    render(Scope::All);
  } else if (shown_at_once) {
    render(Scope::Changed);
  }
  arm_wake(report.wake_at);
  if (options_.until_end) check_end();
}

void Daemon::on_trouble(const std::string& trouble) {
  trouble_ = trouble;
  const std::string text = trouble.empty()
                               ? "the journal can be written again"
                               : "nothing is done: the journal cannot be written: " + trouble;
  log(trouble.empty() ? LogLevel::Notice : LogLevel::Error, text);
  notifier_.status(text);
  if (const auto ours = foundation_.possession->still_ours(); foundation_.possession->lost()) {
    log(LogLevel::Error, ours.error().message());
    exit_ = DaemonExit::Failed;
    return io_.stop();
  }
  // The pulse log needs no journal, and has some room of its own on a full disk.
  const std::string line = fmt::format("{} {}{}\n", format_rfc3339(wall_now()),
                                       trouble.empty() ? "" : "***ALERT ", text);
  site_.mount->post([this, line] {
    if (const auto written = pulse_.append(line); !written)
      log(LogLevel::Warning, "no line in the pulse log: " + written.error().message());
  });
  for (const auto& [name, run] : runs_) changed_.insert(name);
  dirty_ = true;
}

// The thread of its file system. Where that does not answer, runs get a thread that they share with
// others of its kind alone; the next of them are not asked for a minute.
void Daemon::find_mount(WatchedRun& run) {
  constexpr Duration kPatience = 100ms, kSilent = 1min;
  const std::string& directory = run.policy.directory;
  const std::string place = os::mount_point_of(directory);
  const auto silent = silent_places_.find(place);
  std::optional<std::string> real;
  if (silent == silent_places_.end() || monotonic_now() - silent->second > kSilent) {
    real = real_path_in_time(directory, kPatience);
    if (!real) silent_places_.insert_or_assign(place, monotonic_now());
  }
  run.real_directory = real.value_or(directory);
  run.mount = &mount_at(real ? os::mount_point_of(*real) : "no answer: " + place);
}

MountThread& Daemon::mount_at(const std::string& place) {
  auto& mount = mounts_[place];
  if (!mount)
    mount = std::make_unique<MountThread>(
        *foundation_.clock,
        [this](std::vector<core::Input> inputs) { turns_->submit(std::move(inputs)); },
        [once = options_.once, cache = foundation_.state_directory + "/patterns"] {
          return LogKnowledge(once, cache);
        });
  return *mount;
}

// The control socket has one group: that of the first run (by name) that has one and whose group
// this daemon belongs to. Members of other runs' groups have the switch files. Who may act on which
// run is decided for each request, by the kernel's word.
void Daemon::share_socket() {
  std::string group, news;
  for (const auto& [name, run] : runs_) {
    const std::string& wanted = run.policy.group;
    if (wanted.empty() || wanted == group) continue;
    const auto gid = group_id(wanted);
    const char* why = nullptr;
    if (!gid || !we_belong_to(*gid))
      why = "stokerd is no member of it";
    else if (!group.empty())
      why = "the socket belongs to another run's group";
    if (why != nullptr) {
      news += fmt::format("; members of {} ({}) act through the switch files: {}", wanted,
                          name.text, why);
      continue;
    }
    group = wanted;
    news = fmt::format("members of {} ({}) may use the control socket", wanted, name.text) + news;
  }
  if (news.starts_with("; ")) news.erase(0, 2);
  if (news != socket_news_ && !news.empty()) log(LogLevel::Notice, news);
  socket_news_ = news;
  if (group == socket_group_) return;
  socket_group_ = group;
  const gid_t gid = group.empty() ? ::getegid() : group_id(group).value_or(::getegid());
  if (const auto given = socket_->give_to(gid); !given)
    log(LogLevel::Warning, given.error().message());
  const auto shared =
      share_state(foundation_.state_directory, group.empty() ? std::nullopt : std::optional(gid));
  if (!shared) log(LogLevel::Warning, shared.error().message());
  share_pages();
}

void Daemon::share_pages() {
  if (!socket_group_) return;
  site_.mount->post(
      [published = site_.publisher->directory(), open = !socket_group_->empty()] {
        if (const auto set = share_published(published, open); !set)
          log(LogLevel::Warning, set.error().message());
      },
      {{}, watch::Part::Published});
}

// Whether anything is new about it.
bool Daemon::take_up(const std::shared_ptr<const RunBrief>& of) {
  const RunBrief& brief = *of;
  const RunName& name = brief.policy.run;
  auto [found, fresh] = runs_.try_emplace(name);
  WatchedRun& run = found->second;
  const auto before = std::exchange(run.brief, of);
  if (before == of) return false;
  run.state = brief.state;
  run.retired = brief.retired;
  const bool begins = run.generation != brief.generation;
  run.generation = brief.generation;
  if (!fresh) {
    if (before->follows != brief.follows) run.mount->set_follows(name, brief.follows);
    if (!(run.policy == brief.policy)) change(run, brief.policy);
    if (begins && !core::has_agents(run.policy)) run.mount->set_generation(name, run.generation);
    return true;
  }
  run.policy = brief.policy;
  run.unread = brief.unread;  // reported by its name of before
  scheduler_->set_place(name, core::place_of(run.policy.scheduler));
  find_mount(run);
  run.publisher = std::make_shared<RunPublisher>(run.policy.directory, name);
  run.caught_up = std::make_shared<bool>(false);
  if (!core::has_agents(run.policy)) run.mount->set_generation(name, run.generation);
  run.mount->set_follows(name, brief.follows);
  prepare(*run.mount, run.policy);
  start_watcher(name);
  catch_up(name, run);
  share_socket();
  return true;
}

// A changed policy: the watcher starts again behind all that it has reported so far.
void Daemon::change(WatchedRun& run, const core::RunPolicy& policy) {
  run.policy = policy;
  prepare(*run.mount, policy);  // its group may be another
  share_socket();
  scheduler_->set_place(policy.run, core::place_of(policy.scheduler));
  run.mount->forget(policy.run, [this, name = policy.run] {
    // What it had posted lies before this in the loop's queue and is journalled before `done`.
    turns_->submit({}, [this, name](const std::vector<core::JournalRow>&) { start_watcher(name); });
  });
}

// The journal's cursors are read once for all runs that wait: at a start, and when a part of a
// mount is passed over, those are many.
void Daemon::start_watcher(const RunName& name) {
  to_watch_.push_back(name);
  if (to_watch_.size() == 1) asio::post(io_, [this] { start_watchers(); });
}

void Daemon::start_watchers() {
  turns_->inspect([this, names = std::exchange(to_watch_, {})](core::Engine&, SqliteJournal& of) {
    auto read = of.cursors();
    asio::post(io_, [this, names, read = std::move(read)]() mutable {
      if (!read) log(LogLevel::Error, read.error().message());
      const Cursors cursors = std::make_shared<const std::vector<core::Cursor>>(
          read ? std::move(*read) : std::vector<core::Cursor>());
      for (const RunName& name : names)
        if (const auto run = runs_.find(name); run != runs_.end())
          run->second.mount->watch(run->second.policy, cursors);
    });
  });
}

void Daemon::observe(const RunBriefs& runs) {
  std::map<core::SchedulerPlace, std::vector<RunName>> names;
  std::map<core::SchedulerPlace, bool> active;
  std::map<core::SchedulerPlace, std::vector<core::JobExpected>> expected;
  std::map<core::SchedulerPlace, std::vector<core::RunGrounds>> grounds;
  std::set<core::SchedulerPlace> ending;
  for (const auto& [name, brief] : runs) {
    const RunBrief& run = *brief;
    const auto place = core::place_of(run.policy.scheduler);
    names[place];
    std::string& sign = runs_[name].sign;
    if (std::exchange(sign, run.sign) != run.sign && !run.sign.empty()) ending.insert(place);
    if (run.retired) continue;
    names[place].push_back(name);
    grounds[place].push_back(core::grounds_of(run.policy));
    // A training that iterates needs no hurry: its agents tell first when something happens.
    const bool steady = core::traits_of(place.kind).asked_rarely && run.state == "training";
    active[place] = active[place] || (run.active && !steady);
    expected[place].insert(expected[place].end(), run.expected.begin(), run.expected.end());
  }
  for (auto& [place, list] : names) {
    auto& observer = observers_[place];
    if (!observer)
      observer = std::make_unique<SchedulerObserver>(
          scheduler_->of(place), pace_of(place.kind, options_.slurm_pace), sight_);
    observer->watch(std::move(list), active[place], std::move(expected[place]),
                    std::move(grounds[place]));
    if (ending.contains(place)) observer->hurry();
  }
  for (auto& [place, observer] : observers_)  // its last run was forgotten
    if (!names.contains(place)) observer->watch({}, false);
}

// Logs that reported an error and then stopped growing: the job is about to end, or has ended.
void Daemon::heed_silent_logs() {
  for (auto& [name, run] : runs_) {
    if (run.mount == nullptr || run.retired) continue;
    const std::size_t silences = run.mount->silences(name);
    const auto observer = observers_.find(core::place_of(run.policy.scheduler));
    if (std::exchange(run.silences, silences) < silences && observer != observers_.end())
      observer->second->hurry();
  }
}

}  // namespace stoker::daemon
