// What agents report. A generation older than the newest is a late voice: noted, never obeyed. What
// each event means is in generation.cpp, attempt.cpp, saved.cpp and the files of its concern; what
// a training state makes of it, in the state's file.
#include <fmt/format.h>

#include "common/overloaded.hpp"
#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"

namespace stoker::core {
namespace {

void on_notice(Turn& turn, const wire::Notice& e) {
  turn.say(e.node.empty() ? e.text : fmt::format("{}: {}", e.node.text, e.text));
}

void on_control_refused(Turn& turn, const wire::ControlRefused& e) {
  on_notice(turn, wire::Notice{e.node, e.text});
  if (e.stale)
    raise(turn,
          {Severity::Critical, "stale_daemon",
           fmt::format("the agents of {} follow a newer daemon than this one", turn.name().text),
           "stoker doctor", ""});
}

void dispatch_said(Turn& turn, const wire::AgentBody& body) {
  std::visit(Overloaded{[&](const wire::GenerationStarted& e) { on_generation_started(turn, e); },
                        [&](const wire::AgentJoined& e) { on_agent_joined(turn, e); },
                        [&](const wire::AgentLost& e) { on_agent_lost(turn, e); },
                        [&](const wire::Goodbye& e) { on_goodbye(turn, e); },
                        [&](const wire::AttemptStarted& e) { on_attempt_started(turn, e); },
                        [&](const wire::RankExited& e) { on_rank_exited(turn, e); },
                        [&](const wire::AttemptEnded& e) { on_attempt_over(turn, e); },
                        [&](const wire::PhaseEdge& e) { on_phase_edge(turn, e); },
                        [](const wire::Beat&) {},  // folded into digests by watch/
                        [&](const wire::CheckpointSaved& e) { on_saved(turn, e); },
                        [&](const wire::SaveFailed& e) { on_save_failed(turn, e); },
                        [&](const wire::DamagedCheckpoint& e) { on_damaged_checkpoint(turn, e); },
                        [&](const wire::ResumeAudit& e) { on_resume_audit(turn, e); },
                        [&](const wire::CheckpointsDeleted& e) { on_checkpoints_deleted(turn, e); },
                        [&](const wire::CheckpointArchived& e) { on_archived(turn, e); },
                        [&](const wire::ArchiveFailed& e) { on_archive_failed(turn, e); },
                        [&](const wire::Acknowledged& e) { on_acknowledged(turn, e); },
                        [&](const wire::StacksWritten& e) { on_stacks(turn, e); },
                        [&](const wire::NumbersDiffer& e) { on_numbers_differ(turn, e); },
                        [&](const wire::HealthSources& e) { on_health_sources(turn, e); },
                        [&](const wire::BenchBegan& e) { on_bench_began(turn, e); },
                        [&](const wire::NodesBenched& e) { on_nodes_benched(turn, e); },
                        [&](const wire::KernelLine& e) { on_kernel_line(turn, e); },
                        [&](const wire::MachineShort& e) { on_machine_short(turn, e); },
                        [&](const wire::Notice& e) { on_notice(turn, e); },
                        [&](const wire::ControlRefused& e) { on_control_refused(turn, e); }},
             body);
}

}  // namespace

void on_agent_said(Turn& turn, const AgentSaid& said) {
  RunState& run = turn.r();
  run.conditions.daemon_away = false;
  const bool starts = std::holds_alternative<wire::GenerationStarted>(said.event.body);
  if (const auto* gone = std::get_if<wire::CheckpointsDeleted>(&said.event.body))
    return on_checkpoints_deleted(turn, *gone);  // gone is gone, from any source and at any time
  if (const auto* copied = std::get_if<wire::CheckpointArchived>(&said.event.body))
    return on_archived(turn, *copied);  // so is a copy
  if (said.generation < run.newest || (starts && said.generation == run.newest && run.live))
    return turn.say(
        fmt::format("generation {} reports late ({}); {} is the newest, so it is only "
                    "noted",
                    said.generation.value, kind_of_agent(said.event.body), run.newest.value));
  if (!starts && (!run.live || run.live->generation != said.generation)) {
    const auto* kernel = std::get_if<wire::KernelLine>(&said.event.body);
    if (kernel != nullptr && said.generation == run.newest && !run.live)
      return on_kernel_line(turn, *kernel);  // a node's fault outlives the task that met it
    if (said.generation == run.newest && !run.live)
      return turn.say(fmt::format("last reports of generation {} after its task was over ({})",
                                  said.generation.value, kind_of_agent(said.event.body)));
    return turn.reject(fmt::format("generation {} reports ({}) before it reported its start",
                                   said.generation.value, kind_of_agent(said.event.body)));
  }
  dispatch_said(turn, said.event.body);
}

}  // namespace stoker::core
