// Script: dispatch, questions, and the digests that the world gives before each Tick.
#include "sim/transcript/script.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/nodes/node_view.hpp"
#include "core/nodes/spares.hpp"
#include "core/publish/chronicle.hpp"
#include "core/publish/pulse.hpp"
#include "core/publish/spend.hpp"
#include "core/publish/status.hpp"
#include "core/publish/weekly.hpp"

namespace stoker::sim {
namespace {

bool is_question(std::string_view word) {
  static constexpr std::array kQuestions{"status", "nodes?", "pulse",  "chronicle", "alerts",
                                         "costs",  "spares", "report", "spend",     "digest"};
  return std::find(kQuestions.begin(), kQuestions.end(), word) != kQuestions.end();
}

}  // namespace

Script::Script(World::Observer observer) : world_(std::move(observer)) {
  world_.clock.start_at(*parse_rfc3339("2026-05-01T00:00:00Z"));
  policy_.run = RunName("demo");
  policy_.directory = "/runs/demo";
  policy_.train.command = {"stoker-train", "--config", "train.yaml"};
  policy_.train.ranks_per_node = 2;
  policy_.scheduler.nodes = {{0, 2}};
  policy_.scheduler.spares = 1;
  verbs_ = {{"add", &Script::do_add},
            {"daemon", &Script::do_daemon},
            {"nodes", &Script::do_nodes},
            {"calendar", &Script::do_calendar},
            {"job", &Script::do_job},
            {"gone", &Script::do_gone},
            {"rival", &Script::do_rival},
            {"clock", &Script::do_clock},
            {"scheduler", &Script::do_scheduler},
            {"operator", &Script::do_operator},
            {"switch", &Script::do_switch},
            {"disk", &Script::do_disk},
            {"folder", &Script::do_folder},
            {"journal", &Script::do_journal},
            {"files", &Script::do_files},
            {"finish-file", &Script::do_finish_file},
            {"quarantine", &Script::do_quarantine},
            {"effects", &Script::do_effects},
            {"quiet", &Script::do_quiet},
            {"generation", &Script::do_generation},
            {"attempt", &Script::do_attempt},
            {"agent", &Script::do_agent},
            {"phase", &Script::do_phase},
            {"beat", &Script::do_beat},
            {"script", &Script::do_script},
            {"iterate", &Script::do_iterate},
            {"freeze", &Script::do_freeze},
            {"saved", &Script::do_saved},
            {"save-failed", &Script::do_save_failed},
            {"differ", &Script::do_differ},
            {"damaged", &Script::do_damaged},
            {"deleted", &Script::do_deleted},
            {"bench", &Script::do_bench},
            {"benched", &Script::do_benched},
            {"archived", &Script::do_archived},
            {"archive-failed", &Script::do_archive_failed},
            {"audit", &Script::do_audit},
            {"ack", &Script::do_ack},
            {"stacks", &Script::do_stacks},
            {"goodbye", &Script::do_goodbye},
            {"end-mark", &Script::do_end_mark},
            {"kernel", &Script::do_kernel},
            {"gpus", &Script::do_gpus},
            {"week", &Script::do_week},
            {"follower", &Script::do_follower},
            {"reload", &Script::do_reload},
            {"logs", &Script::do_logs},
            {"notice", &Script::do_notice},
            {"machine-short", &Script::do_machine_short},
            {"control-refused", &Script::do_control_refused},
            {"lead", &Script::do_lead},
            {"until", &Script::do_until}};
}

Status Script::advance(Words& words) {
  if (words.peek() == "policy" || is_question(words.peek())) return ok();
  if (!words.take("at")) return fail(fmt::format("unknown word \"{}\"", words.peek()));
  const auto at = parse_duration(words.next());
  if (!at) return fail(at.error());
  if (!started_) {
    started_ = true;
    STOKER_TRY_STATUS(world_.start(core::DaemonStarted{"build-1", Epoch{1}, 0ns, true}));
  }
  const bool daemon_comes_back = words.peek() == "daemon" && words.peek(1) != "stops";
  if (!daemon_comes_back) return world_.advance_to(Instant{} + *at, [this] { return digests(); });
  world_.clock.move_to(Instant{} + *at);
  return ok();
}

Result<std::string> Script::run(Words& words) {
  const std::string first = words.next();
  if (first == "policy") {
    STOKER_TRY_STATUS(do_policy(words));
    return std::string();
  }
  if (is_question(first)) return answer(first);
  said_.clear();
  STOKER_TRY_STATUS(step(words, first));
  return said_;
}

Status Script::step(Words& words, const std::string& verb) {
  const auto found = verbs_.find(verb);
  if (found == verbs_.end()) return fail(fmt::format("unknown verb \"{}\"", verb));
  return (this->*found->second)(words);
}

Status Script::feed(core::EventBody body, bool site) {
  return world_.feed({site ? RunName{} : policy_.run, std::move(body), {}});
}

Status Script::say(wire::AgentBody body, bool overtaken) {
  core::AgentSaid said;
  said.generation = generation_;
  said.from = "lead";
  said.event.at = world_.clock.now();
  said.event.wall = world_.clock.wall();
  said.event.body = std::move(body);
  said.overtaken = overtaken;
  return feed(std::move(said));
}

// Beats go on as the last one said; a frozen world's ages grow.
std::vector<core::Input> Script::digests() {
  if (!beating_) return {};
  wire::Beat beat = beat_;
  beat.iteration_ms = {};
  const auto ms = [](Duration d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  };
  std::int64_t oldest = 200;
  std::int64_t others = 100;
  if (frozen_since_) {
    oldest = ms(world_.clock.now() - *frozen_since_);
    others = others_move_ ? 100 : std::max<std::int64_t>(0, oldest - ms(frozen_lag_));
  }
  beat.progress_age_ms = oldest;
  beat.newest_progress_age_ms = others;
  beat.phase_age_ms = std::max(beat.phase_age_ms, oldest);
  beat.oldest.clear();
  const std::uint32_t per_node = policy_.train.ranks_per_node;
  const auto entry = [&](std::uint32_t rank, std::int64_t age) {
    const std::size_t node = std::min<std::size_t>(rank / per_node, attempt_nodes_.size() - 1);
    beat.oldest.push_back({Rank(rank), attempt_nodes_[node], age, beat.phase, beat.iteration_max});
  };
  const std::uint32_t told = core::has_agents(policy_) ? ranks_ : 0;  // logs tell of no single rank
  if (frozen_rank_ && frozen_since_) entry(frozen_rank_->value, oldest);
  for (std::uint32_t rank = 0; rank < told && beat.oldest.size() < 8; ++rank)
    if (!frozen_since_ || !frozen_rank_ || frozen_rank_->value != rank)
      entry(rank, frozen_rank_ ? others : oldest);
  std::vector<core::Input> inputs;
  inputs.push_back({policy_.run, core::Digest{generation_, beat, {}, {}}, {}});
  return inputs;
}

Status Script::audit() {
  return started_ ? core::audit_journal(world_.journal) : ok();
}

// Where the hours went; how long the nodes last; what their administrators receive.
std::string Script::answer_costs(const std::string& question, const core::RunState& run) {
  const core::SiteState& state = world_.state();
  const auto doc = core::status_of(state, run, world_.clock.now(), world_.clock.wall());
  std::string out;
  if (question == "report") {
    for (const auto& node : core::nodes_of(state, world_.clock.now()))
      if (node.accused > 0)
        for (const char c : core::node_report(node)) {
          if (c == '\n' && (out.empty() || out.back() == '\n')) out += '|';
          out += c;
        }
    return out.empty() ? "none\n" : out;
  }
  if (question == "digest") {
    const core::WeeklyText text = core::weekly_text(state, run, world_.clock.wall());
    return fmt::format("{}\n{}\n{}", text.summary, text.outlook, text.report);
  }
  if (question == "spend") {
    const auto spend = core::spend_of(run, world_.clock.wall());
    return spend ? core::spend_text(*spend) + "\n" : "none\n";
  }
  if (question == "spares" && doc.spares)
    return fmt::format("known {}, needed {}, out {}, free {}, {:.2f} lost a day {}\n",
                       doc.spares->known, doc.spares->needed, doc.spares->out, doc.spares->free,
                       doc.spares->lost_per_day, core::spares_text(doc.spares->out_in_s));
  if (question == "spares" || !doc.goodput) return "none\n";
  for (const auto& cost : doc.goodput->causes)
    out += fmt::format("{}: {} x, {:.0f} s, {:.2f} node hours, {:.2f} GPU hours\n", cost.cause,
                       cost.times, cost.s, cost.node_hours, cost.gpu_hours);
  for (const auto& i : doc.goodput->incidents)
    out += fmt::format("incident {} at iteration {}: {:.0f} s, {} repeated, {:.2f} GPU hours\n",
                       i.kind, i.iteration, i.s, i.repeated, i.gpu_hours);
  if (doc.goodput->mfu) out += fmt::format("mfu {:.3f}\n", *doc.goodput->mfu);
  if (const auto& e = doc.goodput->energy)
    out += fmt::format("energy {:.2f} kWh, {} kg CO2, {}\n", e->kwh,
                       e->co2_kg ? fmt::format("{:.2f}", *e->co2_kg) : "?", e->how);
  return out;
}

std::string Script::answer(const std::string& question) {
  const core::SiteState& state = world_.state();
  const auto found = state.runs.find(policy_.run);
  std::string out;
  if (question == "nodes?") {
    for (const auto& node : core::nodes_of(state, world_.clock.now())) {
      out += fmt::format("{} {}\n", node.node, core::state_text(node));
      for (const std::string& text : node.evidence) out += "    " + text + "\n";
      if (node.score > 0)
        out += fmt::format("    score {:.2f}, accused {}, false positives {}{}\n", node.score,
                           node.accused, node.falsely, node.parole ? ", on parole" : "");
      for (const auto& gpu : node.gpus)
        out += fmt::format("    gpu {} {} {:.2f}\n", gpu.uuid, gpu.serial, gpu.score);
    }
    return out;
  }
  if (question == "alerts") {
    std::vector<wire::StatusAlert> alerts = core::alerts_of(state, RunName{});
    for (const auto& [name, run] : state.runs)
      for (wire::StatusAlert& alert : core::alerts_of(state, name)) alerts.push_back(alert);
    for (const wire::StatusAlert& alert : alerts)
      out += fmt::format("{} {}{}: {}\n", alert.id, alert.severity,
                         alert.acknowledged ? " (acknowledged)" : "", alert.summary);
    return out.empty() ? "none\n" : out;
  }
  if (found == state.runs.end()) return "no run\n";
  if (question == "pulse")
    return core::pulse_line(state, found->second, world_.clock.now(), world_.clock.wall()) + "\n";
  if (question == "chronicle") {
    const auto rows = world_.journal.rows_after(Sequence{}, 1u << 20);
    const auto account =
        core::status_of(state, found->second, world_.clock.now(), world_.clock.wall()).goodput;
    for (const char c : core::chronicle(*rows, found->first, account ? &*account : nullptr)) {
      if (c == '\n' && (out.empty() || out.back() == '\n')) out += '|';
      out += c;
    }
    return out;
  }
  if (question == "costs" || question == "spares" || question == "report" || question == "spend" ||
      question == "digest")
    return answer_costs(question, found->second);
  const auto doc = core::status_of(state, found->second, world_.clock.now(), world_.clock.wall());
  std::string conditions, followers;
  for (const wire::StatusFollower& f : doc.followers)
    followers +=
        fmt::format(" {} jobs={} waiting={} done={} given_up={} left_out={}", f.name, f.jobs.size(),
                    fmt::join(f.waiting, ","), f.good, f.given_up, f.skipped);
  for (const std::string& c : doc.conditions) conditions += " [" + c + "]";
  return fmt::format(
      "{}{} job={} {} generation={}.{} iteration={}/{} loss={} checkpoint={} step={}s norm={}s "
      "deadline={}s budget={}/{} without_progress={}/{} alerts={}{}\n",
      doc.state, conditions, doc.job, doc.job_state, doc.generation, doc.attempt, doc.iteration,
      doc.total, doc.loss ? fmt::format("{}", *doc.loss) : "-",
      doc.checkpoint ? fmt::format("{}", doc.checkpoint->iteration) : "-", doc.step_s,
      doc.step_norm_s, doc.deadline_s, doc.budget.restarts_left, doc.budget.restarts_total,
      doc.budget.without_progress, doc.budget.without_progress_limit, doc.alerts.size(), followers);
}

}  // namespace stoker::sim
