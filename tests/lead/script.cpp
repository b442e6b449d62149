// The interpreter of tests/lead/*.txt.
#include "tests/lead/script.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <sstream>

#include "common/overloaded.hpp"
#include "sim/transcript/transcript_file.hpp"

namespace stoker::lead_test {
namespace {

const Instant kBegin{};
// 2026-05-01T00:00:00Z
constexpr WallTime kWall{std::chrono::seconds(1'777'593'600)};

// What a transcript does not show: signs of life.
bool is_noise(const lead::Action& action) {
  if (const auto* send = std::get_if<lead::Send>(&action))
    return std::holds_alternative<wire::Ping>(send->command);
  const auto* report = std::get_if<lead::Report>(&action);
  return report != nullptr && std::holds_alternative<wire::Beat>(report->body);
}

}  // namespace

Result<std::string> Script::run(std::string_view line) {
  sim::Words words(line);
  out_.clear();
  if (words.take("lead")) {
    make(words);
  } else if (words.take("at")) {
    STOKER_TRY(after, parse_duration(words.next()));
    if (words.take("awake")) {
      now_ = kBegin + after;
      feed(look_as_left());
    } else {
      STOKER_TRY_STATUS(advance_to(kBegin + after));
      STOKER_TRY_STATUS(happen(words));
    }
  } else {
    return fail("unknown word \"" + words.next() + "\"", std::string(line));
  }
  if (!words.empty())
    return fail(fmt::format("the words \"{}\" mean nothing here", words.rest()), std::string(line));
  return out_;
}

void Script::make(sim::Words& words) {
  wire::Start start;
  wire::Orders& orders = start.orders;
  start.run = RunName("demo");
  start.generation = Generation(static_cast<std::uint32_t>(words.number("generation", 1)));
  start.iteration = Iteration(words.number("from"));
  start.nodes = words.nodes("nodes");
  start.lead = start.nodes.front();
  orders.number = OrderNumber(1);
  orders.epoch = Epoch(1);
  orders.nodes = static_cast<std::uint32_t>(words.number("need", start.nodes.size()));
  orders.ranks_per_node = static_cast<std::uint32_t>(words.number("ranks", 1));
  orders.restart_budget = static_cast<std::uint32_t>(words.number("budget", 3));
  orders.orphan_grace = words.duration("grace", 10min);
  orders.command = {words.value("command").value_or("stoker-train")};
  orders.checkpoint_format = words.value("format").value_or("stoker");
  orders.kill_switch = words.value("kill-switch").value_or("");
  orders.finished.file = words.value("finish-file").value_or("");
  orders.save_signal = words.value("save-signal").value_or("");
  orders.exclude = words.nodes("exclude");
  orders.bench = words.nodes("bench");
  orders.preflight = words.flag("preflight");
  orders.in_allocation = !words.flag("no-restarts");
  lead::Setup setup;
  setup.order = OrderNumber(1);
  if (words.flag("by-hand")) setup.order.reset();
  setup.node = start.lead;
  setup.start_path = "gen/start.json";
  setup.checkpoints = "checkpoints";
  setup.beat_every = 1s;
  setup.start = std::move(start);
  std::optional<Instant> limit;
  if (const Duration at = words.duration("limit"); at > 0s) limit = kBegin + at;
  lead::ChosenCheckpoint resume{"", setup.start.iteration, {}, ""};
  if (resume.iteration.value > 0) resume.name = wire::checkpoint_name(resume.iteration, {});
  state_ = lead::initial_state(std::move(setup), std::move(resume), {}, limit);
}

lead::Tick Script::look() const {
  lead::Tick tick = look_as_left();
  for (lead::Link& link : tick.links)
    if (link.up && !silent_.contains(link.node)) link.heard_at = now_;
  return tick;
}

// Nothing was heard since: the lead stood still, and the others with it.
lead::Tick Script::look_as_left() const {
  lead::Tick tick;
  for (const auto& [node, link] : links_) tick.links.push_back(link);
  tick.flooded = flooded_;
  tick.own_clear = !busy_.contains(state_.setup.node);
  tick.archived = archived_;
  return tick;
}

// Between two lines time passes: a Tick at each moment that the lead asked for.
Status Script::advance_to(Instant at) {
  constexpr int kMostWakes = 4;  // at one moment: what it wakes for must be done then
  int wakes = 0;
  ticking_ = true;
  for (auto wake = lead::wake_at(state_); state_.beat_at != Instant{} && wake && *wake < at;
       wake = lead::wake_at(state_)) {
    wakes = *wake > now_ ? 0 : wakes + 1;
    if (wakes > kMostWakes)
      return fail("the lead wakes and does nothing", stage_name(state_.stage));
    now_ = std::max(now_, *wake);
    for (auto& [node, link] : links_)
      if (link.up && !silent_.contains(node)) link.heard_at = now_;
    feed(look());
  }
  ticking_ = false;
  now_ = at;
  return ok();
}

lead::EndLooked Script::looked() const {
  lead::EndLooked answer;
  if (!kill_switch_.empty())
    answer.kill_switch = lead::KillSwitch{"/run/stop", kill_switch_, kWall};
  answer.finish_file = finish_file_;
  return answer;
}

void Script::note(const lead::Action& action) {
  if (const auto* start = std::get_if<lead::StartAttempt>(&action))
    busy_.insert(start->nodes.begin(), start->nodes.end());
  if (std::holds_alternative<lead::KillAll>(action)) busy_.erase(state_.setup.node);
  if (const auto* write = std::get_if<lead::WriteEndMark>(&action)) mark_ = write->mark;
  if (const auto* send = std::get_if<lead::Send>(&action))
    if (std::holds_alternative<wire::LeaveWith>(send->command) && !linger_)
      if (const auto link = links_.find(send->node); link != links_.end()) link->second.up = false;
}

void Script::feed(lead::EventBody body) {
  const std::string before = lead::stage_name(state_.stage);
  lead::Step step = lead::step(std::move(state_), {now_, kWall + (now_ - kBegin), std::move(body)});
  state_ = std::move(step.state);
  const std::string after = lead::stage_name(state_.stage);
  const std::string when = ticking_ ? format_duration(now_ - kBegin) + ": " : "";
  std::string lines;
  std::string previous;
  for (const lead::Action& action : step.actions) {
    note(action);
    const std::string text = describe(action);
    if (!is_noise(action)) lines += fmt::format("{}{}\n", when, text);
  }
  if (before != after) lines += fmt::format("{}{} -> {}\n", when, before, after);
  out_ += lines;
  const bool looks = std::any_of(step.actions.begin(), step.actions.end(), [](const auto& a) {
    return std::holds_alternative<lead::LookForEnd>(a);
  });
  if (looks && !slow_looks_) feed(looked());
}

void Script::say(NodeName node, wire::NodeReport report) {
  if (const auto link = links_.find(node); link != links_.end()) link->second.heard_at = now_;
  feed(lead::NodeSaid{std::move(node), std::move(report)});
}

Attempt Script::attempt(sim::Words& words) const {
  return Attempt(static_cast<std::uint32_t>(words.number("attempt", state_.attempt.value)));
}

void Script::control(sim::Words& words) {
  wire::Control control = state_.done;
  control.run = RunName(words.value("run").value_or("demo"));
  control.epoch = Epoch(static_cast<std::uint32_t>(words.number("epoch", state_.epoch.value)));
  control.generation = Generation(
      static_cast<std::uint32_t>(words.number("generation", state_.setup.start.generation.value)));
  control.save = words.number("save", control.save);
  control.stacks = words.number("stacks", control.stacks);
  control.restart = words.number("restart", control.restart);
  control.restart_of = Attempt(static_cast<std::uint32_t>(words.number("of")));
  control.leave_of = Attempt(static_cast<std::uint32_t>(words.number("leave-of")));
  if (const auto level = words.value("level"))
    control.level = enum_from<wire::Level>(*level).value_or(wire::Level::Run);
  if (const auto nodes = words.nodes("exclude"); !nodes.empty()) control.exclude = nodes;
  control.halt = words.value("halt").value_or("");
  control.halt_order = OrderNumber(static_cast<std::uint32_t>(words.number("halt-order", 1)));
  control.reason = words.value("reason").value_or("");
  feed(lead::ControlRead{std::move(control)});
}

void Script::beat(sim::Words& words) {
  wire::NodeBeat beat;
  const NodeName node(words.next());
  beat.attempt = attempt(words);
  beat.standbys = static_cast<std::uint32_t>(words.number("standbys"));
  beat.snapshots = static_cast<std::uint32_t>(words.number("snapshots"));
  if (const auto rank = words.value("rank")) {
    wire::RankSample sample;
    sample.rank = Rank(static_cast<std::uint32_t>(std::stoul(*rank)));
    sample.reported = true;
    sample.page = !words.flag("without-page");
    sample.phase = enum_from<wire::Phase>(words.value("phase").value_or("iteration"))
                       .value_or(wire::Phase::Iteration);
    sample.iteration = Iteration(words.number("iteration"));
    sample.total = words.number("total");
    sample.progress_age_ms = words.duration("age").count() / 1'000'000;
    sample.completed = 1;
    sample.iteration_ms = 100;
    beat.ranks.push_back(sample);
  }
  say(node, std::move(beat));
}

// "0@40 1@40": shards and iterations.
void Script::held(sim::Words& words) {
  const NodeName node(words.next());
  wire::SnapshotsHeld report;
  wire::HeldSnapshot one;
  one.attempt = attempt(words);
  one.generation = Generation(static_cast<std::uint32_t>(words.number("generation", 1)));
  one.shards = static_cast<std::uint32_t>(words.number("of", 2));
  if (const auto damaged = words.value("damaged")) report.damaged = {*damaged};
  std::istringstream list(words.quoted());
  for (std::string item; list >> item; report.held.push_back(one)) {
    one.shard = static_cast<std::uint32_t>(std::stoul(item));
    one.iteration = Iteration(std::stoull(item.substr(item.find('@') + 1)));
  }
  say(node, std::move(report));
}

void Script::rank(sim::Words& words) {
  wire::RankGone gone;
  gone.exit.rank = Rank(static_cast<std::uint32_t>(std::stoul(words.next())));
  gone.exit.node = NodeName(words.next());
  gone.exit.attempt = attempt(words);
  gone.exit.code = static_cast<int>(words.number("exit"));
  gone.exit.signal = static_cast<int>(words.number("signal"));
  gone.exit.expected = words.flag("expected");
  gone.exit.last_lines = words.quoted();
  say(gone.exit.node, gone);
}

Status Script::happen(sim::Words& words) {
  const std::string verb = words.next();
  if (verb == "connect") {
    const NodeName node(words.next());
    links_[node] = {node, true, now_};
    silent_.erase(node);
    feed(lead::AgentConnected{node, "host", "boot", 1});
  } else if (verb == "close") {
    links_[NodeName(words.next())].up = false;
    feed(look());
  } else if (verb == "silent") {
    silent_.insert(NodeName(words.next()));
  } else if (verb == "speaks") {
    silent_.erase(NodeName(words.next()));
  } else if (verb == "port") {
    const auto port = static_cast<std::uint32_t>(words.number("number", 20001));
    say(NodeName(words.next()), wire::PortChosen{attempt(words), port, words.quoted()});
  } else if (verb == "rank") {
    rank(words);
  } else if (verb == "clear") {
    const NodeName node(words.next());
    busy_.erase(node);
    say(node, wire::NodeClear{attempt(words), words.quoted()});
  } else if (verb == "beat") {
    beat(words);
  } else if (verb == "held") {
    held(words);
  } else if (verb == "resumed") {
    wire::ResumeAudit audit;
    const NodeName node(words.next());
    audit.iteration = Iteration(words.number("iteration"));
    say(node, wire::NodeEvent{std::move(audit)});
  } else if (verb == "saved") {
    say(NodeName(words.next()), wire::NodeEvent{wire::CheckpointSaved{}});
  } else if (verb == "stacks") {
    const auto ranks = static_cast<std::uint32_t>(words.number("ranks", 1));
    const std::string directory = state_.stacks ? state_.stacks->directory : "";
    say(NodeName(words.next()), wire::StacksDone{directory, ranks});
  } else if (verb == "benched") {
    wire::Benched benched;
    benched.figures["gemm_f32"] = words.real("gemm", 1);
    benched.note = words.quoted();
    if (const double share = words.real("gpu"); share > 0)
      benched.gpus.push_back({{"0000:0a:00", "GPU-1", "1"},
                              "H200",
                              {{"gpu_gemm_bf16", 600 * share}, {"gpu_wrong", words.real("wrong")}},
                              ""});
    say(NodeName(words.next()), std::move(benched));
  } else if (verb == "gpus") {
    wire::HealthSources sources;
    sources.node = NodeName(words.next());
    sources.gpus.resize(1);
    say(sources.node, wire::NodeEvent{sources});
  } else if (verb == "signalled") {
    say(NodeName(words.next()), wire::Signalled{SIGTERM});
  } else {
    return happen_to_lead(verb, words);
  }
  return ok();
}

Status Script::happen_to_lead(const std::string& verb, sim::Words& words) {
  if (verb == "begin") {
    feed(lead::Began{"host", "boot", 1});
    feed(look());
  } else if (verb == "quiet") {
    feed(look());
  } else if (verb == "chosen") {
    lead::ChosenCheckpoint chosen;
    if (const auto error = words.value("error")) chosen.error = *error;
    if (const auto damaged = words.value("damaged"))
      chosen.damaged.push_back({*damaged, "shard-0001.bin: XXH3 differs"});
    chosen.iteration = Iteration(words.number("iteration"));
    if (chosen.iteration.value > 0)
      chosen.name = wire::checkpoint_name(chosen.iteration, Generation(1));
    feed(lead::CheckpointChosen{std::move(chosen)});
  } else if (verb == "control") {
    control(words);
  } else if (verb == "switch") {
    const std::string kind = words.next();
    const std::string by = words.next();
    feed(lead::SwitchLeft{kind, by, words.quoted()});
  } else if (verb == "signal") {
    feed(lead::Signal{static_cast<int>(std::stol(words.next())), "Name"});
  } else if (verb == "keeper-killed") {
    feed(lead::KeeperGone{});
  } else if (verb == "kill-switch") {
    kill_switch_ = words.next();
  } else if (verb == "finish-file") {
    finish_file_ = true;
  } else if (verb == "files-slow") {
    slow_looks_ = true;
  } else if (verb == "looked") {
    feed(looked());
  } else if (verb == "written") {
    feed(lead::EndWritten{mark_.value_or(wire::EndMark{}), words.quoted()});
  } else if (verb == "copying") {
    archived_ = false;
  } else if (verb == "copied") {
    archived_ = true;
  } else if (verb == "flood") {
    flooded_ = true;
  } else if (verb == "agents-linger") {
    linger_ = true;
  } else if (verb == "uses") {
    for (const wire::CheckpointId& id : lead::checkpoints_in_use(state_))
      out_ += fmt::format("{}\n", wire::checkpoint_name(id.iteration, id.generation));
  } else {
    return fail("unknown word \"" + verb + "\"", "script");
  }
  return ok();
}

Result<std::string> rerun(std::string_view file, const std::string& name) {
  Script script;
  return sim::rerun_file(file, name, [&](std::string_view line) -> Result<sim::LineAnswer> {
    auto said = script.run(line);
    if (!said) return fail(said.error());
    return sim::LineAnswer{{}, std::move(*said)};
  });
}

}  // namespace stoker::lead_test
