// Names of the environment variables by which stoker's processes and a training talk. A training
// may use any of them.
#pragma once

namespace stoker::wire::env {

// Set by the agent for every rank, besides what torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT) and SLURM-like ids (SLURM_PROCID,
// SLURM_LOCALID, SLURM_NODEID, SLURM_NTASKS, SLURM_NNODES).
inline constexpr const char* kRun = "STOKER_RUN";                // run name
inline constexpr const char* kRunDirectory = "STOKER_RUN_DIR";   // absolute
inline constexpr const char* kGeneration = "STOKER_GENERATION";  // decimal
inline constexpr const char* kAttempt = "STOKER_ATTEMPT";  // decimal, from 1 in each generation
inline constexpr const char* kStorePrefix =
    "STOKER_STORE_PREFIX";                                     // "<run>.<generation>.<attempt>"
inline constexpr const char* kHeartbeat = "STOKER_HEARTBEAT";  // path of this rank's heartbeat page
inline constexpr const char* kStart =
    "STOKER_START";  // path of gen-*/start.json: the ancestry that counts
inline constexpr const char* kLoad =
    "STOKER_LOAD";  // checkpoint directory to resume from, or "none"
inline constexpr const char* kLrScale =
    "STOKER_LR_SCALE";  // multiplies the learning rate; absent = 1
inline constexpr const char* kSkipSamples =
    "STOKER_SKIP_SAMPLES";  // data window skipped after the resume point
// Random, of one rank of one attempt. An event line is "stoker-event WORD {json}"
// (resume_audit.hpp): text that a training prints, a sample of its data for instance, never has it,
// and is no event. The agent hides it in the logs. Never write it to a file that others read.
inline constexpr const char* kEventWord = "STOKER_EVENT_WORD";
inline constexpr const char* kExitBefore =
    "STOKER_EXIT_BEFORE_NS";  // wall-clock ns at which to have saved and exited
inline constexpr const char* kMemory =
    "STOKER_MEMORY";  // paths of the rank's slots (memory_slot.hpp), with ':' between them
inline constexpr const char* kMemoryLoad =
    "STOKER_MEMORY_LOAD";  // "<attempt>.<iteration>": the snapshot to resume from, before kLoad
inline constexpr const char* kStandby =
    "STOKER_STANDBY_FD";  // descriptor of a warm standby (standby.hpp)
inline constexpr const char* kPreload =
    "STOKER_PRELOAD";  // "torch,numpy": modules that a Python training's standby has imported;
                       // STOKER_PRELOAD_CUDA=1 beside it: it has also initialised CUDA

// Set by `stoker-agent follow` for the command of a follower (after: of RUN.yaml), besides kRun,
// kRunDirectory and kGeneration.
inline constexpr const char* kCheckpoint = "STOKER_CHECKPOINT";  // path
inline constexpr const char* kIteration = "STOKER_ITERATION";    // of the checkpoint
inline constexpr const char* kFollower = "STOKER_FOLLOWER";      // name
inline constexpr const char* kFollowTry = "STOKER_TRY";          // decimal, from 1

// Set by the scheduler (SLURM, or the embedded one in the same terms) for the agent.
inline constexpr const char* kToken = "STOKER_TOKEN";  // of the submission
inline constexpr const char* kOrder =
    "STOKER_ORDER";  // number of the order that was current at submission
inline constexpr const char* kState = "STOKER_STATE";  // state directory of daemon and command line

// Set by the embedded scheduler only, besides SLURM's own names (SLURM_JOB_ID, SLURM_ARRAY_JOB_ID,
// SLURM_ARRAY_TASK_ID, SLURM_RESTART_COUNT, SLURM_JOB_NODELIST, SLURM_NNODES, SLURM_NODEID,
// SLURMD_NODENAME, SLURM_JOB_NAME, SLURM_SUBMIT_DIR, SLURM_JOB_END_TIME).
inline constexpr const char* kJobEnd = "STOKER_JOB_END_NS";  // the job's wall, UTC ns since 1970
// Ports that this node may listen on, "20000-20099": all nodes of a host have disjoint ranges.
// Absent when strangers have taken all of them.
inline constexpr const char* kPortRange = "STOKER_PORT_RANGE";
// "n01=127.0.0.1,n02=127.0.0.1": where the nodes of the allocation listen. Absent: names resolve.
inline constexpr const char* kNodeAddresses = "STOKER_NODE_ADDRESSES";
// Marks every process of one node of one job, so that none outlives it. Never change or remove it.
inline constexpr const char* kLocalMark = "STOKER_LOCAL_MARK";

}  // namespace stoker::wire::env
