// Script: what the agents of a generation say.
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "sim/transcript/script.hpp"

namespace stoker::sim {

// generation 1 job 1_1 nodes n[01-03] [from 80] [order 1]
Status Script::do_generation(Words& words) {
  wire::GenerationStarted e;
  e.generation = Generation{static_cast<std::uint32_t>(std::stoul(words.next()))};
  e.job = parse_job(words.value("job").value_or("1_1"));
  e.token = world_.scheduler.token_of(e.job.job);
  e.nodes = words.nodes("nodes");
  e.iteration = Iteration{words.number("from")};
  e.order = OrderNumber{static_cast<std::uint32_t>(words.number("order", 1))};
  e.restart = static_cast<std::uint32_t>(words.number("restart"));
  if (const auto digest = words.value("digest")) e.digests["train.yaml"] = *digest;
  if (words.flag("asked"))
    e.asked =
        wire::Asked{words.number("save"), words.number("stacks"), words.number("restart-asked")};
  e.parent = generation_;
  generation_ = e.generation;
  attempt_ = Attempt{};
  beating_ = false;
  return say(e);
}

// attempt 1 nodes n[01-02] [from 80] [restart 2] [why "..."]
// attempt ended code 137 rank 3 node n02
// end finished | end stopped [by bob]
std::optional<wire::EndMark> Script::parse_end(Words& words) const {
  const auto kind = words.value("end");
  if (!kind) return std::nullopt;
  wire::EndMark mark;
  mark.generation = generation_;
  mark.kind = enum_from<wire::End>(*kind).value_or(wire::End::Finished);
  mark.by = words.value("by").value_or("");
  mark.why = mark.kind == wire::End::Finished ? "all ranks ended with exit code 0"
             : mark.by.empty()                ? "the training exited on its kill switch"
                                              : "switch stop by " + mark.by;
  return mark;
}

// end-mark 1 end finished | end-mark 1 refused "why": seen in its folder
Status Script::do_end_mark(Words& words) {
  core::EndSeen seen;
  seen.mark.generation = Generation{static_cast<std::uint32_t>(std::stoul(words.next()))};
  if (words.take("refused")) {
    seen.refused = words.quoted();
    return feed(std::move(seen));
  }
  const Generation generation = seen.mark.generation;
  seen.mark = parse_end(words).value_or(wire::EndMark{});
  seen.mark.generation = generation;
  return feed(std::move(seen));
}

Status Script::do_attempt(Words& words) {
  if (words.take("ended")) {
    wire::AttemptEnded e;
    e.attempt = attempt_;
    e.all_zero = words.flag("zero");
    e.told = words.flag("ordered");
    e.worst_code = static_cast<int>(words.number("code"));
    e.first_rank = Rank{static_cast<std::uint32_t>(words.number("rank"))};
    e.first_node = NodeName(words.value("node").value_or(""));
    e.end = parse_end(words);
    beating_ = false;
    return say(e);
  }
  wire::AttemptStarted e;
  e.attempt = Attempt{static_cast<std::uint32_t>(std::stoul(words.next()))};
  e.nodes = words.nodes("nodes");
  e.iteration = Iteration{words.number("from")};
  e.memory = words.nodes("memory");
  e.world_size = static_cast<std::uint32_t>(e.nodes.size()) * policy_.train.ranks_per_node;
  e.restart = words.number("restart", 0);
  words.flag("why");
  e.why = words.quoted();
  attempt_ = e.attempt;
  attempt_nodes_ = e.nodes;
  ranks_ = e.world_size;
  frozen_since_.reset();
  beating_ = false;
  return say(e);
}

// agent n02 rank 3 signal 9 | exit 1 [expected] ["its last output"]   agent n02 lost "why" | joined
Status Script::do_agent(Words& words) {
  const NodeName node(words.next());
  if (words.take("lost")) {
    std::string why = words.quoted();
    return say(wire::AgentLost{node, why.empty() ? "connection closed" : why});
  }
  if (words.take("joined")) return say(wire::AgentJoined{node, node.text, "boot", 1});
  wire::RankExited e;
  e.attempt = attempt_;
  e.node = node;
  e.rank = Rank{static_cast<std::uint32_t>(words.number("rank"))};
  e.signal = static_cast<int>(words.number("signal"));
  e.code = static_cast<int>(words.number("exit"));
  if (e.code > 128) {
    e.signal = e.code - 128;
    e.code = 0;
  }
  e.expected = words.flag("expected");
  e.core = words.flag("core");
  const bool overtaken = words.flag("overtaken");
  e.last_lines = words.quoted();
  return say(e, overtaken);
}

Status Script::do_phase(Words& words) {
  const std::string name = words.next();
  const auto phase = enum_from<wire::Phase>(name);
  if (!phase) return fail(fmt::format("unknown phase \"{}\"", name));
  beat_.phase = *phase;
  beat_.phase_age_ms = 0;
  beat_.attempt = Attempt{static_cast<std::uint32_t>(words.number("attempt", attempt_.value))};
  beat_.ranks = beat_.reporting = ranks_;
  beat_.iteration_max = beat_.iteration_min =
      Iteration{words.number("iteration", beat_.iteration_max.value)};
  beating_ = true;
  return say(wire::PhaseEdge{beat_.attempt, *phase, beat_.iteration_max});
}

// beat iteration 120 [total 1000] [phase evaluation] [step 1s times 20] [loss 2.3] [answered 1]
Status Script::do_beat(Words& words) {
  wire::Beat beat;
  beat.attempt = attempt_;
  beat.phase = enum_from<wire::Phase>(words.value("phase").value_or("iteration"))
                   .value_or(wire::Phase::Iteration);
  beat.ranks = beat.reporting = ranks_;
  beat.iteration_max = Iteration{words.number("iteration", beat_.iteration_max.value)};
  beat.iteration_min = beat.iteration_max;
  beat.total = words.number("total", beat_.total);
  beat.consumed_samples = beat.iteration_max.value * 8;
  if (const auto loss = words.value("loss")) beat.loss = std::stod(*loss);
  beat.checkpoint = Iteration{words.number("saved", beat_.checkpoint.value)};
  beat.saves_answered = words.number("answered", beat_.saves_answered);
  beat.phase_age_ms = words.duration("phase_age", 0ns) / std::chrono::milliseconds(1);
  const double step_ms = to_seconds(words.duration("step")) * 1e3;
  core::Digest digest;
  digest.generation = generation_;
  if (step_ms > 0) digest.iteration_ms = {words.number("times", 1), step_ms, step_ms, step_ms};
  beat_ = beat;
  beating_ = true;
  frozen_since_.reset();
  auto inputs = digests();
  auto& given = std::get<core::Digest>(inputs.front().body);
  given.iteration_ms = digest.iteration_ms;
  return world_.feed(std::move(inputs.front()));
}

// script log iteration 120 [total 1000] | script silent: the logs of a run without agents, whose
// generations the decider counts
Status Script::do_script(Words& words) {
  const auto found = world_.state().runs.find(policy_.run);
  if (found == world_.state().runs.end()) return fail("script before add");
  const core::RunState& run = found->second;
  generation_ = run.newest;
  attempt_ = Attempt{1};
  if (run.live) attempt_nodes_ = run.live->nodes;
  ranks_ = run.live ? run.live->world_size : ranks_;
  if (!words.take("silent")) {
    if (!words.take("log")) return fail("script log iteration N, or script silent");
    return do_beat(words);
  }
  beat_ = {};  // nothing yet
  beat_.attempt = attempt_;
  beat_.ranks = ranks_;
  beating_ = true;
  frozen_since_ = world_.clock.now();
  frozen_rank_.reset();
  return ok();
}

// freeze rank 3 [lag 1s] [moving] | freeze all
Status Script::do_freeze(Words& words) {
  frozen_since_ = world_.clock.now();
  frozen_rank_.reset();
  if (words.take("all")) return ok();
  frozen_rank_ = Rank{static_cast<std::uint32_t>(words.number("rank"))};
  others_move_ = words.flag("moving");
  frozen_lag_ = words.duration("lag", 1s);
  return ok();
}

Status Script::do_saved(Words& words) {
  wire::CheckpointSaved e;
  e.iteration = Iteration{std::stoull(words.next())};
  e.checkpoint = wire::checkpoint_name(e.iteration, generation_);
  e.bytes = 1u << 20;
  e.seconds = to_seconds(words.duration("in", 2s));
  return say(e);
}

// differ replay iteration 40 rank 3 [outvoted] [repaired] "what": numbers that must be equal are
// not
Status Script::do_differ(Words& words) {
  wire::NumbersDiffer e;
  e.check = words.next();
  e.iteration = Iteration{words.number("iteration")};
  e.ranks = {Rank{static_cast<std::uint32_t>(words.number("rank"))}};
  if (const auto other = words.value("and"))
    e.ranks.push_back(Rank{static_cast<std::uint32_t>(std::stoul(*other))});
  e.outvoted = words.flag("outvoted");
  e.repaired = words.flag("repaired");
  e.what = words.quoted();
  return say(e);
}

Status Script::do_save_failed(Words& words) {
  wire::SaveFailed e;
  e.iteration = Iteration{words.number("iteration", beat_.iteration_max.value)};
  e.why = words.quoted();
  return say(e);
}

Status Script::do_damaged(Words& words) {
  wire::DamagedCheckpoint e;
  e.checkpoint = words.next();
  e.why = words.quoted();
  return say(e);
}

// deleted NAME…: what checkpoints.keep took away
Status Script::do_deleted(Words& words) {
  wire::CheckpointsDeleted e;
  while (!words.empty()) e.checkpoints.push_back(words.next());
  return say(e);
}

// archived 100 [without]: its copy was read back · archive-failed 100 "why" [waiting 2]
Status Script::do_archived(Words& words) {
  wire::CheckpointArchived e;
  e.iteration = Iteration{std::stoull(words.next())};
  e.checkpoint = wire::checkpoint_name(e.iteration, generation_);
  e.path = "/store/demo/" + e.checkpoint;
  e.bytes = 1u << 20;
  e.seconds = 3;
  e.without_optimizer = words.flag("without");
  return say(e);
}

Status Script::do_archive_failed(Words& words) {
  wire::ArchiveFailed e;
  e.iteration = Iteration{std::stoull(words.next())};
  e.checkpoint = wire::checkpoint_name(e.iteration, generation_);
  e.to = "/store/demo";
  e.waiting = static_cast<std::uint32_t>(words.number("waiting", 1));
  e.why = words.quoted();
  return say(e);
}

Status Script::do_audit(Words& words) {
  wire::ResumeAudit e;
  e.passed = words.next() == "passed";
  e.iteration = Iteration{words.number("iteration")};
  e.checkpoint = wire::checkpoint_name(e.iteration, generation_);
  e.guarantee = e.passed ? "bitwise" : "";
  if (!e.passed) e.items = {{"learning rate", "0.0003", "0.0006", false}};
  return say(e);
}

Status Script::do_ack(Words& words) {
  wire::Acknowledged e;
  e.what = words.next();
  e.value = std::stoull(words.next());
  return say(e);
}

Status Script::do_stacks(Words&) {
  return say(wire::StacksWritten{
      fmt::format("{}/stacks/1", wire::generation_name(generation_)), ranks_, 0, {}});
}

Status Script::do_goodbye(Words& words) {
  wire::Goodbye e;
  e.lead = true;
  e.exit_code = static_cast<int>(words.number("exit"));
  e.why = words.quoted();
  if (e.why.empty()) e.why = "asked to leave";
  e.end = parse_end(words);
  beating_ = false;
  return say(e);
}

Status Script::do_kernel(Words& words) {
  wire::KernelLine e;
  e.node = NodeName(words.next());
  e.event_class = "xid";
  e.xid = static_cast<int>(words.number("xid"));
  e.text = fmt::format("NVRM: Xid (PCI:0000:3b:00): {}", *e.xid);
  e.node_suspect = OptionalName<NodeSuspect>(words.value("suspect").value_or(""));
  e.node_action = OptionalName<NodeAction>(words.value("action").value_or(""));
  e.gpu_uuid = words.value("gpu").value_or("");
  e.gpu_serial = words.value("serial").value_or("");
  if (!e.gpu_uuid.empty()) e.gpu_pci = "0000:3b:00";
  return say(e);
}

// gpus NODE UUID...: what an agent finds by NVML when it starts
Status Script::do_gpus(Words& words) {
  wire::HealthSources e;
  e.node = NodeName(words.next());
  while (!words.empty()) e.gpus.push_back({"0000:3b:00", words.next(), ""});
  e.sources.push_back({"NVML", true, fmt::format("{} GPUs", e.gpus.size())});
  return say(e);
}

// logs CLASS [attempt N] [action A] [confidence C] [nodes L] [exclude L] [kernel] [harmless]
// "summary" "main.log:12: text": what diagnose/ makes of the logs
Status Script::do_logs(Words& words) {
  core::Diagnosed e;
  e.failure_class = words.next();
  e.generation = generation_;
  e.attempt = Attempt{static_cast<std::uint32_t>(words.number("attempt", attempt_.value))};
  const std::string action = words.value("action").value_or("restart");
  const auto known = enum_from<RunAction>(action);
  if (!known) return fail("no action of a diagnosis", action);
  e.action = *known;
  e.advice = "what a person does about " + e.failure_class;
  e.confidence = words.real("confidence", 0.9);
  e.nodes = words.nodes("nodes");
  e.exclude = words.nodes("exclude");
  e.from_kernel = words.flag("kernel");
  e.fatal = !words.flag("harmless");
  e.summary = words.quoted();
  if (const std::string line = words.quoted(); !line.empty()) e.evidence = {line};
  return feed(e);
}

Status Script::do_notice(Words& words) {
  return say(wire::Notice{NodeName{}, words.quoted()});
}

Status Script::do_machine_short(Words& words) {
  const NodeName node(words.next());
  return say(wire::MachineShort{node, words.quoted(), 65s});
}

Status Script::do_control_refused(Words& words) {
  const bool stale = words.flag("stale");
  return say(wire::ControlRefused{NodeName{}, words.quoted(), stale});
}

Status Script::do_lead(Words& words) {
  if (words.take("speaks")) return feed(core::LeadSpeaks{generation_});
  beating_ = false;
  return feed(core::LeadSilent{generation_, words.duration("silent", 30s)});
}

// until training [iteration 100] [checkpoint 80] [ends 1h]: the usual way there, in short
Status Script::do_until(Words& words) {
  if (!words.take("training")) return fail("until training");
  const std::uint64_t iteration = words.number("iteration", 100);
  const std::uint64_t checkpoint = words.number("checkpoint", 80);
  const std::string ends = words.value("ends").value_or("20h");
  const std::uint32_t count = policy_.scheduler.nodes.front().nodes + policy_.scheduler.spares;
  const std::string all = count == 1 ? "n01" : fmt::format("n[01-{:02}]", count);
  const std::uint32_t active = policy_.scheduler.nodes.front().nodes;
  const std::string some = active == 1 ? "n01" : fmt::format("n[01-{:02}]", active);
  for (const std::string& line :
       {fmt::format("nodes {} up", all), std::string("add alice"),
        fmt::format("job 1_1 RUNNING nodes {} ends {}", all, ends),
        fmt::format("generation 1 job 1_1 nodes {}", all), fmt::format("attempt 1 nodes {}", some),
        std::string("phase iteration"),
        fmt::format("beat iteration {} total 1000 step 1s times 50 loss 2.5", iteration),
        checkpoint == 0 ? std::string("quiet") : fmt::format("saved {}", checkpoint)}) {
    Words inner(line);
    const std::string verb = inner.next();
    STOKER_TRY_STATUS(step(inner, verb));
  }
  return ok();
}

}  // namespace stoker::sim
