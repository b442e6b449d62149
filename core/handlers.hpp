// The handlers that step() dispatches to, one a kind of event.
#pragma once

#include "core/turn.hpp"

namespace stoker::core {

// training/agents.cpp, training/progress.cpp
void on_agent_said(Turn& turn, const AgentSaid& said);
constexpr const char* kind_of_agent(const wire::AgentBody& body) {
  return std::visit([](const auto& b) { return std::decay_t<decltype(b)>::kKind; }, body);
}
void on_digest(Turn& turn, const Digest& digest);
// Something in this phase took so long: a limit that was doubled stays so as long as it is needed.
void note_length(Turn& turn, wire::Phase phase, Duration longest);

// training/generation.cpp
void on_generation_started(Turn& turn, const wire::GenerationStarted& e);
void on_agent_joined(Turn& turn, const wire::AgentJoined& e);
void on_agent_lost(Turn& turn, const wire::AgentLost& e);
void on_goodbye(Turn& turn, const wire::Goodbye& e);

// training/attempt.cpp
void on_attempt_started(Turn& turn, const wire::AttemptStarted& e);
void on_rank_exited(Turn& turn, const wire::RankExited& e);
void on_attempt_over(Turn& turn, const wire::AttemptEnded& e);
void on_phase_edge(Turn& turn, const wire::PhaseEdge& e);

// training/suspect.cpp
void on_stacks(Turn& turn, const wire::StacksWritten& e);
// The evidence of a hang is in, or its time has passed.
void act_on_suspicion(Turn& turn);
void on_lead_silent(Turn& turn, const LeadSilent& silent);
void on_lead_speaks(Turn& turn, const LeadSpeaks& speaks);

// training/saved.cpp
void on_saved(Turn& turn, const wire::CheckpointSaved& e);
void on_save_failed(Turn& turn, const wire::SaveFailed& e);
void on_damaged_checkpoint(Turn& turn, const wire::DamagedCheckpoint& e);
void on_resume_audit(Turn& turn, const wire::ResumeAudit& e);

// recover/archive.cpp
void on_checkpoints_deleted(Turn& turn, const wire::CheckpointsDeleted& e);
void on_archived(Turn& turn, const wire::CheckpointArchived& e);
void on_archive_failed(Turn& turn, const wire::ArchiveFailed& e);

// signals/probe.cpp
void on_job_probed(Turn& turn, const JobProbed& probed);

// signals/diagnosed.cpp
void on_diagnosed(Turn& turn, const Diagnosed& diagnosed);

// operators/operators.cpp
void on_run_added(Turn& turn, const RunPolicy& policy, const std::string& by, Generation newest);
void on_operator(Turn& turn, const OperatorAsked& asked);

// operators/requests.cpp
void stop_now(Turn& turn, wire::Level level, const std::string& by, const std::string& sentence);
void ask_save(Turn& turn, const std::string& by, const std::string& sentence);
void on_acknowledged(Turn& turn, const wire::Acknowledged& e);
// An iteration that a save or a stop waited for may be reached.
void check_planned(Turn& turn);

// site.cpp
void on_daemon_started(Turn& turn, const DaemonStarted& started);
void on_node_seen(Turn& turn, const NodeSeen& seen);
void on_blind(Turn& turn, const SchedulerBlind& blind);
void on_sees(Turn& turn);
void on_switch_refused(Turn& turn, const SwitchRefused& refused);
void on_quarantined(Turn& turn, const Quarantined& quarantined);

// publish/weekly.cpp
void on_weekly_due(Turn& turn, const WeeklyDue& due);

// training/finished.cpp
void on_finish_file(Turn& turn, const FinishFileSeen& seen);

// recover/end.cpp
void on_end_seen(Turn& turn, const EndSeen& seen);

// signals/disk_space.cpp
void on_disk(Turn& turn, const DiskLow& disk);
void on_disk_full(Turn& turn, const DiskFull& disk);
// An effect found no room in the run directory, or found room again.
void note_no_room(Turn& turn);
void note_room(Turn& turn);

// signals/folder_silent.cpp
void on_folder_silent(Turn& turn, const FolderSilent& folder);

// effects.cpp
void on_effect_done(Turn& turn, const EffectDone& done);
void on_effect_failed(Turn& turn, const EffectFailed& failed);
void on_effect_unknown(Turn& turn, const EffectUnknown& unknown);
void retry_effects(Turn& turn);

}  // namespace stoker::core
