// Runs without agents: an existing batch script, submitted as it is (train.batch_script). A job of
// it is one generation with one attempt. What is known of it is what its logs tell (digests that
// daemon/logs folds) and the scheduler's reports; nothing can be requested from it but by its own
// save signal or switch file, and all else is the scheduler's cancel. The guard is in front: no job
// starts before the one before is proven over, and after the loss of a node not before its logs and
// checkpoints are still.
#pragma once

#include <optional>

#include "core/turn.hpp"

namespace stoker::core::script {

// After a lost node: how long logs and checkpoint tree must be still before the next job.
inline constexpr Duration kOrphanGrace = 10min;

// Its job runs: the generation begins.
void begin(Turn& turn, const supply::Submission& submission, const JobSeen& seen);

// There is a way to tell it to save and leave before the wall that does not burn the next task too.
bool leaves_when_told(const RunPolicy& policy);
// Asks the running job to save; false: it has no way to be asked.
bool ask_save(Turn& turn);
// Asks it to save and leave, or cancels it where it cannot be asked.
void ask_to_leave(Turn& turn, wire::Level level);
// Its kill switch was moved aside, or a person has set it: then nothing goes on.
void on_kill_switch(Turn& turn, const SetKillSwitch& kill, const std::string& detail);
// How long it may take to save and leave.
Duration patience(const RunPolicy& policy);

// Why the training is finished although only COMPLETED was seen; empty: it is not proven.
std::optional<std::string> finished(const RunState& run, const JobSeen& end);
// It completed an iteration that no job before it had completed.
bool moved(const RunState& run, const LiveGeneration& live);

// A job was lost with a node: no submission before the lost node's ranks are still. False: no such
// wait (an array whose next task SLURM starts by itself).
bool wait_for_stillness(Turn& turn, Trigger trigger, const std::string& sentence,
                        const std::string& whose);
// Back to a checkpoint of a format that names the one to resume from in a file: the checkpoint is
// looked for, the job ends, the file is set, the next job is submitted. Else refused with what to
// do.
void roll_back(Turn& turn, const OperatorAsked& asked, const std::string& sentence);
// A look or a write of a rollback went well, or did not.
void on_resume_point(Turn& turn, const SetResumePoint& point, const std::string& failed);
// A rollback's file is set first; true: no submission yet.
bool sets_resume_point(Turn& turn, const std::string& why);

// The checkpoint tree is watched for stillness.
bool looks(const RunState& run);
// The pause is over: has the tree changed since the last check?
void look_again(Turn& turn);
void on_tree(Turn& turn, const std::string& tree);
void on_tree_unseen(Turn& turn, const std::string& why);
// Logs of the job before still grow.
void on_late_progress(Turn& turn, const Digest& digest);

}  // namespace stoker::core::script
