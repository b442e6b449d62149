// Exit codes of stoker-train: a contract with the decider and with scripts (docs/operations.md).
#pragma once

namespace stoker::train {

enum class ExitCode : int {
  Finished = 0,
  Failed = 1,
  Left = 10,  // duration or signal; saved
  KillSwitch = 11,
  ExitPoint = 12,  // exit iteration or samples
  PeerLost = 20,
  CheckpointRefused = 21,
  Configuration = 22,
  DiskFull = 23,
};

}  // namespace stoker::train
