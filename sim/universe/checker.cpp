// Invariants.
#include "sim/universe/checker.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "core/step.hpp"
#include "wire/lineage.hpp"

namespace stoker::sim {
namespace {

bool is_there(const SimTask& task) {
  return task.state == core::JobState::Running || task.state == core::JobState::Suspended;
}

constexpr std::size_t kToldViolations = 5;
constexpr std::size_t kPerformedKept = 64;
constexpr Duration kFollowed = 10h;   // of a follower's job: it waits, runs an hour, is lost
constexpr Duration kOnItsWay = 2min;  // of an alert: what was decided at the very end is still open

bool ends_ranks(const core::Action& action) {
  if (std::holds_alternative<core::Cancel>(action))
    return !std::get<core::Cancel>(action).pending_only;
  return false;
}

bool from_a_person(const core::EventBody& body) {
  return std::holds_alternative<core::OperatorAsked>(body) ||
         std::holds_alternative<core::RunAdded>(body);
}

bool raises(const core::Decision& decision, std::string_view kind) {
  return std::any_of(decision.actions.begin(), decision.actions.end(), [&](const auto& action) {
    const auto* alert = std::get_if<core::SendAlert>(&action);
    return alert != nullptr && alert->alert_kind == kind && !alert->resolved;
  });
}

// Asked for once more after a failure: it was decided before.
bool is_repeated(const core::SiteState& state, const EffectKey& key) {
  const auto open = state.open.find(key);
  return open != state.open.end() && open->second.failures > 0;
}

}  // namespace

bool given_up(const std::string& state) {
  return state == "held" || state == "stopped" || state == "finished" || state == "idle";
}

Checker::Checker(const Scenario& scenario, Training& training, Cluster& cluster)
    : scenario_(scenario), training_(training), cluster_(cluster) {}

void Checker::broken(const std::string& what) {
  if (safety_.size() < kToldViolations)
    safety_.push_back(fmt::format("{} {}", format_duration(now_ - Instant{}), what));
}
void Checker::stuck(const std::string& what) {
  if (liveness_.size() < kToldViolations)
    liveness_.push_back(fmt::format("{} {}", format_duration(now_ - Instant{}), what));
}

void Checker::row(const core::JournalRow& row, const core::SiteState& state, const Excuse& excuse) {
  check_actions(row, state, excuse);
  check_destruction(row, excuse);
  if (SimGeneration* live = training_.live(); live != nullptr && !training_.goes_on(*live))
    odd_until_ = now_ + 48h;
  check_rollback(row, state);
  judge_hang(row, excuse);
  if (row.decision.rejected && std::holds_alternative<core::Digest>(row.event.body))
    broken("a digest was rejected: " + row.decision.reason);
  const auto* asked = std::get_if<core::OperatorAsked>(&row.event.body);
  const bool resumed = asked != nullptr && !row.decision.rejected &&
                       (asked->verb == "resume" ||  // a restart of what rests is one
                        (asked->verb == "restart" && given_up(row.decision.from)));
  for (const auto& [name, run] : state.runs) check_budget(run, resumed);
  if (resumed) ended_.reset();
  if (row.decision.from != row.decision.to) {
    if (row.decision.to == "recovering" ||
        (row.decision.to == "queued" && row.decision.from != "idle" &&
         row.decision.from != "stopping"))
      ++incidents_;
    const auto run = state.runs.find(row.event.run);
    if (row.decision.to == "held" && run != state.runs.end()) {
      const auto& held = std::get<core::training::Held>(run->second.training);
      if (!held.retry_at) ++manual_;
    }
  }
  check_blamed(row, state);
  check_exclusions(state);
  check_condemned(row, state);
  check_idle(row);
  check_rate(row, state, resumed);
  if (const auto run = state.runs.find(row.event.run); run != state.runs.end()) {
    if (run->second.live) known_ = run->second.live->generation;
    const auto facts = run->second.health.phases.find("iteration");
    doubled_ = facts != run->second.health.phases.end() && facts->second.factor > 1;
  }
  blind_ = state.blind_since.has_value();
  if (scripts_ != nullptr) check_script(row, state, excuse);
}

// Unknown is not dead: while the scheduler is blind no running task is cancelled, unless a
// person asks for it.
void Checker::check_actions(const core::JournalRow& row, const core::SiteState& state,
                            const Excuse& excuse) {
  note_order(row, state);
  for (std::size_t i = 0; i < row.decision.actions.size(); ++i) {
    const core::Action& action = row.decision.actions[i];
    if (const auto* alert = std::get_if<core::SendAlert>(&action))
      if (alerts_wanted_.emplace(alert->id, now_).second) judge_alert(*alert);
    if (ends_ranks(action) && blind_ && !from_a_person(row.event.body) && !excuse.person &&
        !is_repeated(state, core::effect_key(row.event.run, row.seq, i)) &&
        !given_up(row.decision.to) && hits_a_living(std::get<core::Cancel>(action)))
      broken("cancelled a task while the scheduler was blind: " + row.decision.reason);
    const auto* cancel = std::get_if<core::Cancel>(&action);
    if (cancel != nullptr) check_repeated(row, state, *cancel);
  }
}

// What the agents have reported about checkpoints that no start can use.
void Checker::note_lost(const core::JournalRow& row) {
  const auto* said = std::get_if<core::AgentSaid>(&row.event.body);
  if (said == nullptr) return;
  if (const auto* gone = std::get_if<wire::CheckpointsDeleted>(&said->event.body))
    lost_.insert(gone->checkpoints.begin(), gone->checkpoints.end());
  if (const auto* saved = std::get_if<wire::CheckpointSaved>(&said->event.body))
    lost_.erase(saved->checkpoint);  // a damaged one of this name was moved aside
  if (const auto* damaged = std::get_if<wire::DamagedCheckpoint>(&said->event.body))
    lost_.insert(damaged->checkpoint);
}

// Orders go back only to a checkpoint that is not reported gone or damaged, and by
// itself never past a pinned one. The pin counts when the rollback is decided: until its orders
// are read (a full disk holds them up), a generation that began by older ones may train past it.
void Checker::check_rollback(const core::JournalRow& row, const core::SiteState& state) {
  note_lost(row);
  const auto run = state.runs.find(row.event.run);
  if (run == state.runs.end()) return;
  if (!run->second.asked.exact_order) going_back_to_.clear();
  for (const core::Action& action : row.decision.actions) {
    const auto* write = std::get_if<core::WriteOrders>(&action);
    if (write == nullptr || write->orders.resume.mode != wire::ResumeMode::Exact) continue;
    const wire::Resume& to = write->orders.resume;
    const std::string name = wire::checkpoint_name(to.iteration, to.generation);
    if (lost_.contains(name))
      broken(fmt::format("goes back to {}, which is reported gone or damaged", name));
    if (std::exchange(going_back_to_, name) == name || from_a_person(row.event.body)) continue;
    const Iteration reached = run->second.health.progress.iteration;
    for (const std::uint64_t pin : scenario_.policy.checkpoints.pin)
      if (pin > to.iteration.value && pin <= reached.value)
        broken(fmt::format("goes back to {}, past the pinned {}", to.iteration.value, pin));
  }
}

// The end of a run is lasting, whether the daemon was there or away.
void Checker::begins(const SimGeneration& g) {
  if (ended_)
    broken(fmt::format("generation {} begins although the run was over with {}", g.number.value,
                       ended_->value));
}

// No matter what the decider knew: no ranks start from a checkpoint that is not there or damaged.
void Checker::goes_back(const SimGeneration& g) {
  const wire::CheckpointId id{g.orders().resume.iteration, g.orders().resume.generation};
  const auto& there = training_.checkpoints();
  const auto found =
      std::find_if(there.begin(), there.end(), [&](const SimCheckpoint& c) { return c.id == id; });
  const std::string name = wire::checkpoint_name(id.iteration, id.generation);
  if (found == there.end()) return broken(fmt::format("goes back to {}, which is not there", name));
  if (found->damaged) broken(fmt::format("goes back to {}, which is damaged", name));
}

// The last good ones of its line stay, and what is pinned, resumed from, or about to be.
void Checker::deletes(const SimGeneration& g, const std::vector<wire::CheckpointId>& gone) {
  const auto deleted = [&](const wire::CheckpointId& id) {
    return std::find(gone.begin(), gone.end(), id) != gone.end();
  };
  std::uint32_t kept = 0, good = 0;
  std::optional<wire::CheckpointId> newest;
  std::vector<std::uint64_t> pins = training_.pins_ordered();  // those of spikes too
  const auto& fixed = scenario_.policy.checkpoints.pin;
  pins.insert(pins.end(), fixed.begin(), fixed.end());
  const std::uint64_t copied = scenario_.policy.checkpoints.archive_every;
  for (const SimCheckpoint& c : training_.checkpoints()) {
    if (!wire::accepts(g.lineage(), c.id.generation, c.id.iteration)) continue;
    const std::string name = wire::checkpoint_name(c.id.iteration, c.id.generation);
    if (deleted(c.id) && std::find(pins.begin(), pins.end(), c.id.iteration.value) != pins.end())
      broken(fmt::format("deletes {}, which is pinned", name));
    if (deleted(c.id) && name == g.lead.state.loaded)
      broken(fmt::format("deletes {}, from which it resumed", name));
    if (c.damaged) continue;
    if (deleted(c.id) && copied > 0 && c.id.iteration.value % copied == 0 && !c.archived)
      broken(fmt::format("deletes {}, of which no copy was verified", name));
    ++good;
    kept += deleted(c.id) ? 0 : 1;
    if (!newest || *newest < c.id) newest = c.id;
  }
  if (newest && deleted(*newest))
    broken(fmt::format("deletes {}, the newest good one",
                       wire::checkpoint_name(newest->iteration, newest->generation)));
  if (kept < std::min(good, scenario_.policy.checkpoints.keep_last))
    broken(fmt::format("keeps {} good checkpoints of {}, {} are to be kept", kept, good,
                       scenario_.policy.checkpoints.keep_last));
}

// A suspicion of a hang, against what really stands still.
void Checker::judge_hang(const core::JournalRow& row, const Excuse& excuse) {
  if (row.decision.to != "suspect" || row.decision.from == "suspect" ||
      !std::holds_alternative<core::Digest>(row.event.body))
    return;
  SimGeneration* live = training_.live();
  if (live == nullptr) return;
  if (live->frozen_at) {
    ++found_.hangs;
    if (doubled_)
      ++found_.doubled;
    else if (live->stage == Stage::Iterate)  // other phases have limits of their own
      found_.hang_longest = std::max(found_.hang_longest, now_ - *live->frozen_at);
  } else if (training_.healthy(*live) && !excuse.lines_delayed && !excuse.person) {
    ++found_.false_hangs;
  }
}

void Checker::judge_alert(const core::SendAlert& alert) {
  const auto first = alert.id.find('/');
  const auto last = alert.id.rfind('/');
  if (first == std::string::npos || last <= first) return;
  if (alert.labels.contains("acknowledged_by")) return;  // it was judged when it was raised
  const std::string kind = alert.id.substr(first + 1, last - first - 1);
  ++found_.alerts[kind];
  SimGeneration* live = training_.live();
  if (kind.starts_with("loss_") && !training_.sick())
    broken("took a calm loss for sick: " + alert.summary);
  if ((kind == "resume_audit" || kind == "data_order") && live != nullptr &&
      training_.goes_on(*live) && odd_until_ < now_ && !training_.sick())
    broken("refused a start that goes on where the one before was: " + alert.summary);
  if (kind != "slow") return;
  if (live != nullptr && live->slow_since != Instant{}) {
    ++found_.slows;
    found_.slow_longest = std::max(found_.slow_longest, now_ - live->slow_since);
  } else {
    ++found_.false_slows;
  }
}

// An idle run is not watched: it never is while its ranks are well and SLURM has its task, also
// when a person has just paused it.
void Checker::check_idle(const core::JournalRow& row) {
  if (row.decision.to != "idle" || row.decision.from == "idle") return;
  SimGeneration* live = training_.live();
  if (live == nullptr || live->zombie || live->number != known_) return;
  const auto job = cluster_.jobs().find(live->job);
  if (job == cluster_.jobs().end()) return;
  if (is_there(job->second.state.at(live->task)) && training_.healthy(*live))
    broken("idle beside a training that goes on: " + row.decision.reason);
}

Iteration Checker::trained() const {
  if (scripts_ != nullptr) return scripts_->reached();
  SimGeneration* live = training_.live();
  return live == nullptr ? training_.reached() : training_.completed(*live);
}

// No more than three submissions are taken within ten minutes while nothing is trained. Lines of a
// script's log may show late what it trained before.
void Checker::check_rate(const core::JournalRow& row, const core::SiteState& state, bool resumed) {
  const Iteration reached = trained();
  furthest_ = std::max(furthest_, reached);
  const auto run = state.runs.find(row.event.run);
  const bool late = scripts_ != nullptr && run != state.runs.end() &&
                    run->second.health.progress.iteration > shown_ &&
                    run->second.health.progress.iteration <= furthest_;
  if (late) shown_ = run->second.health.progress.iteration;
  if (resumed || late || reached != trained_) taken_.clear();
  trained_ = reached;
  const auto* done = std::get_if<core::EffectDone>(&row.event.body);
  const auto* looked = std::get_if<core::TokenLookedUp>(&row.event.body);
  if ((done == nullptr || done->action != core::Submit::kKind) &&
      (looked == nullptr || !looked->found))
    return;
  taken_.push_back(now_);
  std::erase_if(taken_, [this](Instant at) { return at + 10min <= now_; });
  if (taken_.size() > 3)
    broken(fmt::format("{} submissions within 10 min without an iteration", taken_.size()));
}

// A task taken for over although it lives.
void Checker::check_destruction(const core::JournalRow& row, const Excuse& excuse) {
  const std::string& from = row.decision.from;
  const std::string& to = row.decision.to;
  const bool ran = from == "training" || from == "starting" || from == "suspect";
  if (!ran || from_a_person(row.event.body) || excuse.person) return;
  SimGeneration* live = training_.live();
  if (live == nullptr || live->number != known_) return;  // it is about one before
  if (to == "queued") {
    const auto job = cluster_.jobs().find(live->job);
    if (job == cluster_.jobs().end() || live->zombie) return;
    const SimTask& task = job->second.state.at(live->task);
    if (is_there(task) && training_.healthy(*live) && !raises(row.decision, "limbo"))
      broken("took a task for over that runs: " + row.decision.reason);
  }
}

void Checker::check_budget(const core::RunState& run, bool resumed) {
  const core::RecoverPolicy& policy = scenario_.policy.recover;
  if (run.recovery.budget.best > best_) {
    best_ = run.recovery.budget.best;
    restarts_ = run.recovery.budget.restarts;
  }
  if (run.recovery.budget.restarts < restarts_) restarts_ = run.recovery.budget.restarts;
  if (run.recovery.budget.best < best_) {  // it went back: progress counts from there
    best_ = run.recovery.budget.best;
    restarts_ = run.recovery.budget.restarts;
  }
  const std::string where = core::state_name(run.training);
  if (resumed || where == "held" || where == "stopped") {
    restarts_ = run.recovery.budget.restarts;  // whom a person resumes has a fresh budget
    return;
  }
  if (run.recovery.budget.restarts - restarts_ > policy.restarts_without_progress + 1)
    broken(fmt::format("{} restarts without progress, {} are allowed",
                       run.recovery.budget.restarts - restarts_, policy.restarts_without_progress));
}

void Checker::acted(const core::Intent& intent, const SimJournal& journal) {
  if (!journal.knows(intent.key))
    broken(fmt::format("{} was performed, but no row of the journal knows {}",
                       core::kind_of(intent.action), intent.key.text));
  performed_.push_back(intent.key);
  if (performed_.size() > kPerformedKept) performed_.erase(performed_.begin());
}

void Checker::after_kill(const SimJournal& journal) {
  for (const EffectKey& key : performed_)
    if (!journal.knows(key))
      broken(fmt::format("an effect was performed, and its row {} is lost", key.text));
  performed_.clear();
}

// Two arrays of one run that are not chained can run one after the other unintended.
void Checker::submitted(const std::string& token) {
  std::map<std::uint64_t, std::uint32_t> live;  // behind the same job, or behind none
  std::uint32_t most = 0;
  for (const auto& [id, job] : cluster_.jobs()) {
    if (job.name != scenario_.policy.run.text) continue;
    const bool lives = std::any_of(job.state.begin(), job.state.end(), [](const auto& entry) {
      return !core::is_terminal(entry.second.state);
    });
    if (lives) most = std::max(most, ++live[job.after]);
  }
  if (most > 1) broken(fmt::format("submitted {} while another array of the run is live", token));
}

void Checker::count_lines(std::size_t told, std::size_t taken) {
  if (taken < told) broken(fmt::format("{} lines of the agents were never taken", told - taken));
  if (taken > told) broken(fmt::format("{} lines of the agents were taken twice", taken - told));
}

void Checker::rest(const core::SiteState& state, const SimFiles& files, const SimAlerts& alerts,
                   Iteration since, Iteration reached) {
  for (const auto& [path, text] : files.content)
    if (path.starts_with("/runs/sim/switch/") && !path.starts_with("/runs/sim/switch/."))
      broken("a switch file was never taken up: " + path);
  std::set<std::string> arrived;
  for (const auto& [key, alert] : alerts.accepted) arrived.insert(alert.id);
  for (const auto& [id, wanted] : alerts_wanted_)
    if (!arrived.contains(id) && wanted + kOnItsWay < now_) broken("an alert was lost: " + id);
  for (const auto& [name, run] : state.runs) {
    for (const auto& [follower, of] : run.followers)
      for (const core::followers::Following& f : of.open)
        if (f.job && f.job->job.job != 0 && f.job->since + kFollowed < now_)
          stuck(fmt::format("{} has waited for job {} for more than {}", follower, f.job->job.job,
                            format_duration(kFollowed)));
    const std::string where = core::state_name(run.training);
    if (scripts_ != nullptr) rest_script(run);
    if (where == "finished" || where == "stopped") continue;
    if (where == "held") {
      const auto& held = std::get<core::training::Held>(run.training);
      const bool told = std::any_of(state.alerts.begin(), state.alerts.end(), [&](const auto& a) {
        return a.second.kind == held.alert_kind;
      });
      if (!told && !held.retry_at)
        stuck(fmt::format("held ({}) and no alert was sent", held.alert_kind));
      continue;
    }
    if (where == "idle" && run.asked.paused) continue;
    if (reached <= since || where == "suspect" || where == "idle")
      stuck(fmt::format("{} since {}, iteration {} then and {} now: {}", where,
                        format_duration(run.since - Instant{}), since.value, reached.value,
                        run.why));
  }
}

}  // namespace stoker::sim
