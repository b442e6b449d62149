// Daemon, alerts beside the decisions that raise them: what stays open is repeated, the hour of a
// weekly digest becomes an input, sinks are tried out.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/asio/post.hpp>

#include "alerts/outbox.hpp"
#include "core/alerts/alerting.hpp"
#include "core/operators/silences.hpp"
#include "core/publish/weekly.hpp"
#include "daemon/loop/daemon.hpp"

namespace stoker::daemon {

namespace asio = boost::asio;

// Open alerts that are neither acknowledged nor silenced are reported again at their routes' pace,
// and to further sinks.
void Daemon::repeat_alerts() {
  turns_->inspect([this](core::Engine& engine, SqliteJournal&) {
    std::set<RunName> names{RunName()};
    for (const auto& [name, run] : engine.state().runs) names.insert(name);
    std::vector<core::SendAlert> all;
    std::set<std::string> silenced;
    for (const auto& [id, alert] : engine.state().alerts) {
      core::SendAlert& open = all.emplace_back();
      open.id = id;
      open.severity = alert.severity;
      open.alert_kind = alert.kind;
      open.labels = {{"run", alert.run.text}, {"subject", alert.subject}};
    }
    for (const auto& held : core::silenced_alerts(engine.state(), foundation_.clock->now()))
      silenced.insert(held.id);
    alerts_->note_open(all, silenced);
    for (const RunName& name : names)
      if (const auto open = core::alerts_to_repeat(engine.state(), name, foundation_.clock->now());
          !open.empty())
        alerts_->repeat(open, context_of({EffectKey(), name, core::Action()}).policy.alerts);
  });
}

// A digest whose hour has come, or came while no daemon ran. The decider makes each but once.
void Daemon::note_weeks() {
  turns_->inspect([this](core::Engine& engine, SqliteJournal&) {
    const WallTime wall = wall_now();
    std::vector<core::Input> inputs;
    for (const auto& [name, run] : engine.state().runs)
      if (const auto due = core::weekly_due(run, wall, alerts::offset_here(wall)))
        inputs.push_back({name, core::WeeklyDue{*due, ""}, {}});
    if (inputs.empty()) return;
    asio::post(io_,
               [this, inputs = std::move(inputs)]() mutable { turns_->submit(std::move(inputs)); });
  });
}

// One beside the weekly ones; dry run: only its text.
void Daemon::make_digest(const wire::Request& request, const std::string& by, Reply reply) {
  const auto run = runs_.find(RunName(request.run));
  if (run == runs_.end())
    return reply(
        {1, false, "there is no run \"" + request.run + "\"; stoker status lists them", {}});
  const auto& rule = run->second.policy.alerts.digest;
  if (!rule && !request.dry_run)
    return reply({1,
                  false,
                  "no sink would receive it: set alerts.digest in RUN.yaml (--dry-run shows the "
                  "digest)",
                  {}});
  const std::string to = rule ? fmt::format("{}", fmt::join(rule->to, ", ")) : "";
  const core::Input input{run->first, core::WeeklyDue{wall_now(), by}, {}};
  if (!request.dry_run)
    return turns_->submit({input}, [reply, to](const std::vector<core::JournalRow>&) {
      reply({1, true, "the digest goes to " + to, {}});
    });
  turns_->inspect([this, input, reply, to](core::Engine& engine, SqliteJournal&) {
    wire::Response response{1, true, "", {{"to", to}}};
    for (const core::Action& action : engine.preview(input).actions)
      if (const auto* alert = std::get_if<core::SendAlert>(&action);
          alert != nullptr && alert->alert_kind == "weekly_digest") {
        response.message = alert->summary;
        response.data["report"] = alert->report;
        response.data["outlook"] = alert->reason;
      }
    if (response.message.empty())
      response = {1, false, "a silence keeps it back: stoker silence --list", {}};
    asio::post(io_, [reply, response] { reply(response); });
  });
}

void Daemon::test_alerts(const wire::Request& request, Reply reply) {
  core::AlertPolicy policy;
  for (const auto& [name, run] : runs_)
    if (request.run.empty() || name.text == request.run)
      for (const core::SinkPolicy& sink : run.policy.alerts.sinks)  // runs often share one
        if (std::find(policy.sinks.begin(), policy.sinks.end(), sink) == policy.sinks.end())
          policy.sinks.push_back(sink);
  if (policy.sinks.empty()) return reply({1, false, "no run has a sink in its alerts section", {}});
  errands_.post("alerts", [this, policy, reply, dry_run = request.dry_run] {
    const auto tested = alerts_->test(policy, dry_run);
    asio::post(io_, [reply, tested] {
      reply({1, tested.ok, tested.text, {{"sinks", tested.sinks}}});
    });
  });
}

}  // namespace stoker::daemon
