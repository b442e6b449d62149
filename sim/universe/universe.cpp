// Universe: who receives what, and when.
#include "sim/universe/universe.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "sim/transcript/describe.hpp"

namespace stoker::sim {
namespace {

const std::string kCursor = "/runs/sim/lead", kEndCursor = "end:sim";

// The attempt that this line of a lead begins; 0: none.
Attempt begun_by(const std::string& line) {
  if (line.find(wire::AttemptStarted::kKind) == std::string::npos) return {};
  const auto event =
      wire::parse_event_line(std::string_view(line).substr(0, line.size() - 1), "lead.jsonl");
  const auto* started = event ? std::get_if<wire::AttemptStarted>(&event->body) : nullptr;
  return started == nullptr ? Attempt{} : started->attempt;
}

bool has_allocation(const std::string& state) {
  return state == "starting" || state == "training" || state == "suspect" ||
         state == "recovering" || state == "stopping";
}

}  // namespace

double Outcome::ettr() const {
  const Duration span = length - waited;
  return span <= 0ns ? 0 : to_seconds(useful) / to_seconds(span);
}

Universe::Universe(const Scenario& scenario, Settings settings)
    : scenario_(scenario),
      settings_(std::move(settings)),
      told_policy_(scenario.policy),
      random_(settings_.seed) {
  if (settings_.broken == Guard::Budget) {
    told_policy_.recover.restarts_total = 100000;
    told_policy_.recover.restarts_without_progress = 1000;
  }
  if (settings_.broken == Guard::ExclusionCap) told_policy_.recover.exclude_at_most = 1;
  if (settings_.broken == Guard::RollbackPin) told_policy_.checkpoints.pin.clear();
  if (settings_.broken == Guard::VerifyCheckpoint) told_policy_.checkpoints.verify = false;
  cluster_ = std::make_unique<Cluster>(
      time_, random_, scenario_.cluster,
      Cluster::Hooks{[this](const SimJob& job, std::uint32_t task) {
                       if (scripts_) return scripts_->job_started(job, task);
                       if (Followers::is_ours(job)) return followers_->job_started(job);
                       training_->job_started(job, task);
                     },
                     [this](const SimJob& job, std::uint32_t task, bool gently) {
                       if (scripts_) return scripts_->job_killed(job, task, gently);
                       if (Followers::is_ours(job)) return followers_->job_killed(job, gently);
                       training_->job_killed(job, task, gently);
                     },
                     [this](const std::string& text) { say(text); },
                     [this](const SimJob& job, std::uint32_t task) {
                       if (scripts_) scripts_->signalled(job, task);
                     }});
  slurm_ = std::make_unique<SlurmText>(*cluster_, files_, time_, random_, scenario_.cluster);
  training_ = std::make_unique<Training>(
      time_, random_, *cluster_, files_, scenario_, settings_.broken,
      Training::Hooks{[this](Generation generation, const std::string& line) {
                        lines_.push_back({generation, line, begun_by(line)});
                        time_.after(200ms, [this] { take_lines(); });
                      },
                      [this](const std::string& text) { say(text); },
                      [this](const std::string& text) { checker_->broken(text); },
                      [this](const std::string& why) {
                        if (!excuse().person && !excuse().lines_delayed && !given_up(state_))
                          checker_->broken("ended a training that was well: " + why);
                      },
                      [this] { return storage_free_; },
                      [this] { return disk_full_until_ > time_.now(); },
                      [this] { return doomed_until_ > time_.now(); },
                      [this](const SimGeneration& g, const auto& gone) {
                        checker_->deletes(g, gone);
                        followers_->deleted(gone);
                      },
                      [this](const SimGeneration& g) { checker_->goes_back(g); },
                      [this](const SimGeneration& g) { checker_->begins(g); },
                      [this](const SimGeneration& g) {
                        checker_->ends(g);
                        time_.after(1s, [this] { look_at_end(); });
                      },
                      [this] { return late_until_ > time_.now(); }});
  checker_ = std::make_unique<Checker>(scenario_, *training_, *cluster_);
  followers_ = std::make_unique<Followers>(
      time_, random_, *cluster_, files_, settings_.broken,
      Followers::Hooks{[this](const std::string& text) { say(text); },
                       [this](const std::string& text) { checker_->broken(text); },
                       [this](const wire::CheckpointId& id) {
                         const auto& there = training_->checkpoints();
                         return std::any_of(there.begin(), there.end(),
                                            [&](const SimCheckpoint& c) { return c.id == id; });
                       }});
  if (scenario_.script.on) make_script();
}

Universe::~Universe() = default;

void Universe::say(const std::string& text) {
  if (settings_.trace)
    settings_.trace(fmt::format("{} world: {}", format_duration(time_.now() - Instant{}), text));
}

void Universe::make_daemon(SimJournal journal, Epoch epoch, Duration away) {
  Daemon::Hooks hooks;
  hooks.row = [this, epoch](const core::JournalRow& row, const core::SiteState& state) {
    if (epoch == daemon_->epoch()) on_row(row, state);  // an older one decides nothing
  };
  hooks.may_act = [this](const Daemon& daemon, const core::Intent&) {
    return settings_.broken == Guard::Lease || daemon.epoch() == daemon_->epoch();
  };
  hooks.acted = [this](const core::Intent& intent) {
    checker_->now(time_.now());
    checker_->acted(intent, daemon_->journal());
    if (const auto* submit = std::get_if<core::Submit>(&intent.action))
      time_.after(1ms, [this, token = submit->token.text] { checker_->submitted(token); });
    if (const auto* write = std::get_if<core::WriteOrders>(&intent.action))
      training_->orders_written(write->orders.number);
    if (std::holds_alternative<core::WriteControl>(intent.action))
      time_.after(1ms, [this] { training_->control_written(); });
    if (scripts_ && std::holds_alternative<core::SetKillSwitch>(intent.action))
      time_.after(1ms, [this] { scripts_->look_at_switch(); });
  };
  hooks.digests = [this] { return digests(); };
  hooks.disk_full = [this] { return disk_full_until_ > time_.now(); };
  daemon_ =
      std::make_unique<Daemon>(Daemon::Parts{time_, random_, *slurm_, files_, alerts_, told_policy_,
                                             settings_.broken, scenario_.cluster.poll},
                               std::move(journal), epoch, std::move(hooks));
  start_daemon(away);
}

// Silence is counted from a daemon's start.
void Universe::start_daemon(Duration away) {
  heard_ = time_.now();
  daemon_->start(away);
  if (!scripts_) return;
  eyes_->begin(daemon_->journal().cursors().value());
  see_script(daemon_->state());
}

Excuse Universe::excuse() const {
  Excuse excuse;
  excuse.lines_delayed = std::max(delayed_until_, stale_until_) + 2min > time_.now();
  excuse.unreadable = std::max(lines_from_, storage_free_);
  const SimGeneration* g = training_->live();
  const Duration stood = g == nullptr ? Duration{} : g->stand.all;  // a request waits for its end
  excuse.person = person_at_ != Instant{} && person_at_ + 30min + stood > time_.now();
  return excuse;
}

void Universe::on_row(const core::JournalRow& row, const core::SiteState& state) {
  checker_->now(time_.now());
  checker_->row(row, state, excuse());
  if (row.event.run == told_policy_.run) state_ = row.decision.to;
  if (scripts_) see_script(state);
  if (const auto* asked = std::get_if<core::OperatorAsked>(&row.event.body);
      scripts_ && asked != nullptr && row.decision.from == "held" && row.decision.to != "held")
    scripts_->end_orphans();  // who resumes it has read what to do first
  const bool allocated = has_allocation(row.decision.to);
  if (row.event.run == told_policy_.run && allocated == waiting_) {
    if (waiting_)
      waited_ += time_.now() - waiting_since_;
    else
      waiting_since_ = time_.now();
    waiting_ = !waiting_;
  }
  if (!settings_.trace) return;
  const std::string text = describe(row);
  if (!text.empty()) settings_.trace(text.substr(0, text.size() - 1));
}

// The lead's file, line by line from the journal's cursor on.
void Universe::take_lines() {
  if (!daemon_->up() || daemon_->asleep() || lines_from_ > time_.now()) return;
  std::uint64_t at = daemon_->journal().line_of(kCursor);
  if (settings_.broken == Guard::Dedupe) at = std::min<std::uint64_t>(at, taken_);
  for (; at < lines_.size(); ++at) {
    const Line& line = lines_[at];
    if (reads_torn(line.text)) return;
    heard_ = time_.now();
    const auto event = wire::parse_event_line(
        std::string_view(line.text).substr(0, line.text.size() - 1), "lead.jsonl");
    STOKER_CHECK(event, "a line that the simulation wrote");
    if (silent_told_ && line.generation == training_->all().rbegin()->first) {
      silent_told_ = false;
      daemon_->feed({told_policy_.run, core::LeadSpeaks{line.generation}, {}});
    }
    core::Cursor cursor;
    cursor.path = kCursor;
    cursor.line = at + 1;
    for (core::Input& input : digests()) daemon_->feed(std::move(input));
    const bool overtaken = wire::is_overtaken(event->body, begun_later(at));
    daemon_->feed(
        {told_policy_.run, core::AgentSaid{line.generation, "lead", *event, overtaken}, {cursor}});
    taken_ = at + 1;
    ++delivered_;
  }
}

// The newest generation's end mark, once, behind what its lead has said.
void Universe::look_at_end() {
  if (training_->all().empty()) return;
  const auto& [number, newest] = *training_->all().rbegin();
  if (!newest.end) return;
  if (daemon_->up() && !daemon_->asleep() && lines_from_ <= time_.now() &&
      taken_ >= lines_.size() && daemon_->journal().line_of(kEndCursor) != number.value) {
    core::Cursor cursor;
    cursor.path = kEndCursor;
    cursor.line = number.value;
    daemon_->feed({told_policy_.run, core::EndSeen{*newest.end, ""}, {cursor}});
    return;
  }
  time_.after(10s, [this] { look_at_end(); });
}

// The newest attempt of its generation that later lines tell of.
Attempt Universe::begun_later(std::uint64_t at) const {
  Attempt begun;
  for (std::size_t i = at + 1; i < lines_.size(); ++i)
    if (lines_[i].generation == lines_[at].generation) begun = std::max(begun, lines_[i].begun);
  return begun;
}

// What the lead beats now, unless no one can see it.
std::vector<core::Input> Universe::digests() {
  if (scripts_) return look_at_script(true);
  SimGeneration* g = training_->live();
  if (g == nullptr || g->zombie || g->stand.since || g->attempt.value == 0 ||
      g->stage == Stage::Waiting || lines_from_ > time_.now() || storage_free_ > time_.now())
    return {};
  if (taken_ < lines_.size()) {  // its own start was not read yet
    return {};
  }
  core::Digest digest;
  digest.generation = g->number;
  digest.last = training_->beat(*g);
  training_->tell_iterations(*g, digest);
  heard_ = time_.now();
  std::vector<core::Input> inputs;
  inputs.push_back({told_policy_.run, std::move(digest), {}});
  return inputs;
}

void Universe::plan_digests() {
  time_.after(scenario_.training.digest_every, [this] {
    if (daemon_->up() && !daemon_->asleep())
      for (core::Input& input : digests()) daemon_->feed(std::move(input));
    plan_digests();
  });
}

void Universe::look_at_switches() {
  time_.after(20s, [this] {
    look_at_switches();
    if (!daemon_->up() || daemon_->asleep()) return;
    std::vector<std::string> names;
    for (const std::string& name : files_.below("/runs/sim/switch/"))
      if (name[0] != '.') names.push_back(name);
    for (const std::string& name : names) {
      core::OperatorAsked asked;
      asked.verb = name;
      asked.by = "bob";
      asked.via = "switch file";
      person_at_ = time_.now();
      daemon_->feed({told_policy_.run, asked, {}});
    }
  });
}

void Universe::look_at_followers() {
  time_.after(10s, [this] {
    look_at_followers();
    if (!daemon_->up() || daemon_->asleep()) return;
    const auto run = daemon_->state().runs.find(told_policy_.run);
    if (run == daemon_->state().runs.end()) return;
    const bool readable = lines_from_ <= time_.now() && storage_free_ <= time_.now();
    for (core::FollowerEnded& ended : followers_->ends(run->second, readable))
      daemon_->feed({told_policy_.run, std::move(ended), {}});
  });
}

// An operator who was paged comes within hours, repairs and resumes.
void Universe::look_after_held() {
  time_.after(random_.between(1h, 4h), [this] {
    look_after_held();
    if (!daemon_->up() || daemon_->asleep()) return;
    const auto run = daemon_->state().runs.find(told_policy_.run);
    if (run == daemon_->state().runs.end()) return;
    const auto* held = std::get_if<core::training::Held>(&run->second.training);
    if (held == nullptr || held->retry_at) return;
    doomed_until_ = time_.now();
    training_->mend();
    mend_script();
    core::OperatorAsked asked;
    asked.verb = "resume";
    asked.by = "alice";
    asked.reason = "mended";
    asked.via = "socket";
    if (scripts_ && held->alert_kind == "resume_audit") asked.arguments["as-is"] = "true";
    person_at_ = time_.now();
    daemon_->feed({told_policy_.run, asked, {}});
  });
}

Outcome Universe::live() {
  SimJournal journal;
  make_daemon(std::move(journal), Epoch{1}, 0s);
  daemon_->feed({told_policy_.run, core::RunAdded{told_policy_, "alice"}, {}});
  plan_faults();
  if (scripts_) {
    plan_looks();
  } else {
    plan_digests();
    watch_silence();
  }
  look_at_switches();
  if (!told_policy_.after.empty()) look_at_followers();
  look_after_held();
  const auto stop = [this] { return !checker_->safety().empty(); };
  const Instant faulty{scenario_.length};
  time_.run_until(faulty, stop);
  training_->settle();
  Outcome outcome;
  outcome.useful = scripts_ ? scripts_->useful() : training_->useful();
  outcome.lost = scripts_ ? scripts_->lost() : training_->lost();
  outcome.waited = waited_ + (waiting_ ? time_.now() - waiting_since_ : 0ns);
  outcome.length = time_.now() - Instant{};
  outcome.reached = scripts_ ? scripts_->best() : training_->best();
  outcome.incidents = checker_->incidents();
  outcome.manual = checker_->manual();
  outcome.followed = followers_->ended_well();
  outcome.from_memory = training_->from_memory();
  outcome.found = checker_->found();
  outcome.found.slowdowns = training_->slowdowns();
  if (checker_->safety().empty() && scenario_.heals > 0ns) {
    heal();
    time_.run_until(faulty + scenario_.heals / 2, stop);
    training_->settle();
    const auto reached = [this] { return scripts_ ? scripts_->reached() : training_->reached(); };
    const Iteration since = reached();
    time_.run_until(faulty + scenario_.heals, stop);
    if (reached() <= since)  // between two tasks, perhaps
      time_.run_until(faulty + scenario_.heals + 30min, stop);
    training_->settle();
    if (checker_->safety().empty()) {
      checker_->now(time_.now());
      take_lines();  // of the last moment
      checker_->count_lines(lines_.size(), delivered_);
      checker_->rest(daemon_->state(), files_, alerts_, since, reached());
    }
  }
  outcome.safety = checker_->safety();
  outcome.liveness = checker_->liveness();
  outcome.faults = faults_;
  if (daemon_->up())
    if (const auto run = daemon_->state().runs.find(told_policy_.run);
        run != daemon_->state().runs.end()) {
      outcome.state = core::state_name(run->second.training);
      outcome.why = run->second.why;
    }
  return outcome;
}

}  // namespace stoker::sim
