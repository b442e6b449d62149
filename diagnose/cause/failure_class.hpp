// FailureClass: what a diagnosis can say, in the words of `stoker diagnose --json`. What a class
// means and what to do about it is data: configs/diagnosis/classes.yaml.
#pragma once

#include "common/json.hpp"
#include "common/remedy.hpp"

namespace stoker::diagnose {

enum class FailureClass {
  Xid,
  Sxid,
  GpuFallenOffBus,
  CudaOom,
  CudaError,
  NcclTimeout,
  NcclError,
  GlooStoreRdzv,
  HostOom,
  ShmBusError,
  Segfault,
  PythonTraceback,
  TorchelasticChildFailed,
  SlurmTimeLimit,
  SlurmPreempted,
  SlurmNodeFail,
  SlurmCancelled,
  SlurmTaskExit,
  SlurmLaunchFailure,
  SlurmAuth,
  DiskFull,
  FsStale,
  NetLinkDown,
  CheckpointCorrupt,
  DataLoader,
  LossNanInf,
  LossScaleCollapse,
  LossSpike,
  GradOverflowSkip,
  Hang,
  SlowNode,
  Healthy,
  Unknown
};

// How much a line weighs. Fatal: a process or the job died of it. Clue: counts only where nothing
// fatal was found. Warning: a class of its own when the run did not fail. Success ends a run well.
// Benign: looks like a failure but is not one; silences its line.
enum class Severity { Fatal, Clue, Warning, Success, Benign };

using stoker::NodeAction;
using stoker::NodeSuspect;
using stoker::RunAction;

}  // namespace stoker::diagnose

template <>
struct stoker::EnumNames<stoker::diagnose::FailureClass> {
  static constexpr std::array names{"xid",
                                    "sxid",
                                    "gpu_fallen_off_bus",
                                    "cuda_oom",
                                    "cuda_error",
                                    "nccl_timeout",
                                    "nccl_error",
                                    "gloo_store_rdzv",
                                    "host_oom",
                                    "shm_bus_error",
                                    "segfault",
                                    "python_traceback",
                                    "torchelastic_child_failed",
                                    "slurm_time_limit",
                                    "slurm_preempted",
                                    "slurm_node_fail",
                                    "slurm_cancelled",
                                    "slurm_task_exit",
                                    "slurm_launch_failure",
                                    "slurm_auth",
                                    "disk_full",
                                    "fs_stale",
                                    "net_link_down",
                                    "checkpoint_corrupt",
                                    "data_loader",
                                    "loss_nan_inf",
                                    "loss_scale_collapse",
                                    "loss_spike",
                                    "grad_overflow_skip",
                                    "hang",
                                    "slow_node",
                                    "healthy",
                                    "unknown"};
};
template <>
struct stoker::EnumNames<stoker::diagnose::Severity> {
  static constexpr std::array names{"fatal", "clue", "warning", "success", "benign"};
};

namespace stoker::diagnose {

inline constexpr std::size_t kFailureClasses = EnumNames<FailureClass>::names.size();

struct Advice {
  RunAction action = RunAction::None;
  NodeAction node_action = NodeAction::None;
  std::string text;  // one or two sentences that people read
};

}  // namespace stoker::diagnose
