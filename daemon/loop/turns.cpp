// Turns: at most one batch in flight; inputs that it could not journal go in front of the next.
#include "daemon/loop/turns.hpp"

#include <set>

#include <boost/asio/post.hpp>

#include "core/followers/followers.hpp"
#include "core/recover/end.hpp"
#include "core/step.hpp"
#include "wire/follow_files.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
constexpr Duration kRetry = 1s;

bool wants_jobs(const core::RunState& run) {
  const std::string_view name = core::state_name(run.training);
  return name != "idle" && name != "held" && name != "finished" && name != "stopped";
}

RunBrief brief_of(const core::SiteState& state, const core::RunState& run) {
  RunBrief brief;
  brief.policy = run.policy;
  brief.state = core::state_name(run.training);
  bool live = false;
  for (const auto& [token, submission] : run.jobs.supply) {
    live = live || submission.live();
    if (submission.live() && submission.job.job != 0)
      brief.expected.push_back(
          {token, submission.job, state.wall - (state.now - submission.intended_at)});
  }
  for (const auto& [name, follower] : run.followers)
    for (const core::followers::Following& f : follower.open) {
      if (!f.job) continue;
      brief.follows.push_back(
          {f.job->token, wire::follow_folder(name, f.iteration, f.generation), f.job->looked_for});
      if (f.job->job.job != 0) brief.expected.push_back({f.job->token, f.job->job, f.job->wall});
    }
  brief.active = live || wants_jobs(run) || core::followers::is_busy(run);
  brief.retired = !brief.active && brief.state != "idle";
  brief.unread = run.conditions.unread_since.has_value();
  if (run.live) brief.generation = run.live->generation;
  if (!brief.retired) brief.sign = core::sign_of_end(run);
  return brief;
}

}  // namespace

Turns::Turns(asio::io_context& io, Parts parts, Hooks hooks)
    : io_(io), parts_(parts), hooks_(std::move(hooks)), retry_(io) {}

Turns::~Turns() {
  stop();
}

void Turns::stop() {
  stopped_ = true;
  worker_.stop();
}

void Turns::start(const core::DaemonStarted& started) {
  start_ = started;
  pump();
}

void Turns::submit(std::vector<core::Input> inputs, Done done) {
  asio::post(io_, [this, inputs = std::move(inputs), done = std::move(done)]() mutable {
    for (core::Input& input : inputs) waiting_.push_back(std::move(input));
    if (done) waiting_done_.push_back(std::move(done));
    pump();
  });
}

void Turns::inspect(std::function<void(core::Engine&, SqliteJournal&)> job) {
  worker_.post([this, job = std::move(job)] { job(parts_.engine, parts_.journal); });
}

void Turns::pump() {
  if (in_flight_ || stopped_) return;
  if (waiting_.empty() && waiting_done_.empty() && !start_) return;
  in_flight_ = true;
  auto batch = std::make_shared<Batch>();
  batch->start = std::exchange(start_, std::nullopt);
  batch->inputs.swap(waiting_);
  batch->done.swap(waiting_done_);
  worker_.post([this, batch] {
    auto outcome = std::make_shared<Outcome>(step(*batch));
    asio::post(io_, [this, batch, outcome] { finished(std::move(*batch), std::move(*outcome)); });
  });
}

Status Turns::feed(std::vector<core::Input> inputs, TurnReport& report) {
  STOKER_TRY_STATUS(parts_.engine.feed(std::move(inputs)));
  const auto& rows = parts_.engine.last_rows();
  report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  return ok();
}

// While something is under suspicion: alone, and a guilty one is set aside with its cursors.
Status Turns::step_one(core::Input& input, TurnReport& report) {
  if (!parts_.poison.is_poisonous(input)) {
    STOKER_TRY_STATUS(parts_.poison.before({input}));
    STOKER_TRY_STATUS(feed({input}, report));
    return parts_.poison.after();
  }
  const std::string digest = input_digest(input);
  const std::string kind = core::kind_of(input.body);
  STOKER_TRY_STATUS(
      parts_.journal.quarantine(digest, wall_now(), input.run, kind, to_json_text(input.body)));
  STOKER_TRY_STATUS(feed({{input.run, core::Quarantined{kind, digest}, input.cursors}}, report));
  return parts_.poison.forget(input);
}

// A turn of one run makes one.
void Turns::refresh_briefs(const std::vector<core::JournalRow>& rows) {
  const auto& runs = parts_.engine.state().runs;
  std::set<RunName> names;
  for (const core::JournalRow& row : rows) {
    names.insert(row.event.run);
    if (core::keeps_to_its_run(row.event)) continue;
    for (const auto& [name, run] : runs) names.insert(name);
    std::erase_if(briefs_, [&](const auto& brief) { return !runs.contains(brief.first); });
  }
  for (const RunName& name : names) {
    const auto run = runs.find(name);
    if (run == runs.end()) continue;
    RunBrief brief = brief_of(parts_.engine.state(), run->second);
    auto& known = briefs_[name];
    if (!known || !(*known == brief)) known = std::make_shared<const RunBrief>(std::move(brief));
  }
}

Turns::Outcome Turns::step(Batch& batch) {
  Outcome outcome;
  const auto close = [&](const Status& status) {
    if (!status) outcome.error = status.error();
    refresh_briefs(outcome.report.rows);
    outcome.report.runs = briefs_;
    outcome.report.wake_at = parts_.engine.wake_at();
    return std::move(outcome);
  };
  if (batch.start) {
    outcome.started = false;
    outcome.left = batch.inputs;
    if (auto status = parts_.engine.start(*batch.start); !status) return close(status);
    outcome.report.rows = parts_.engine.last_rows();
    outcome.started = true;
    outcome.left.clear();
  }
  const bool careful = parts_.poison.careful();
  if (careful) {
    for (std::size_t i = 0; i < batch.inputs.size(); ++i)
      if (auto status = step_one(batch.inputs[i], outcome.report); !status) {
        outcome.left.assign(batch.inputs.begin() + static_cast<std::ptrdiff_t>(i),
                            batch.inputs.end());
        return close(status);
      }
  } else if (!batch.inputs.empty()) {
    auto status = parts_.poison.before(batch.inputs);
    if (status) status = feed(batch.inputs, outcome.report);
    if (!status) {
      outcome.left = batch.inputs;
      return close(status);
    }
    if (auto cleared = parts_.poison.after(); !cleared) return close(cleared);
  }
  return close(ok());
}

void Turns::finished(Batch batch, Outcome outcome) {
  in_flight_ = false;
  const std::string trouble = outcome.error ? outcome.error->message() : "";
  if (trouble != trouble_) hooks_.trouble(trouble);
  trouble_ = trouble;
  const std::vector<core::JournalRow> rows = outcome.report.rows;
  if (!outcome.error || !rows.empty()) hooks_.turn(std::move(outcome.report));
  if (outcome.error) {
    if (!outcome.started) start_ = batch.start;
    waiting_.insert(waiting_.begin(), outcome.left.begin(), outcome.left.end());
    waiting_done_.insert(waiting_done_.begin(), batch.done.begin(), batch.done.end());
    in_flight_ = true;  // until the retry: nothing overtakes the inputs that wait
    retry_.expires_after(kRetry);
    retry_.async_wait([this](const boost::system::error_code& code) {
      in_flight_ = false;
      if (!code) pump();
    });
    return;
  }
  for (const Done& done : batch.done) done(rows);
  pump();
}

}  // namespace stoker::daemon
