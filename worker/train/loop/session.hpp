// Session: one start of one rank, from the configuration to the exit code. First what needs no
// peers (configuration, data, memory), which a warm standby does ahead of its order; then meeting
// the peers, choosing and loading the checkpoint, the resume audit, and the loop.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "worker/train/comm/comm.hpp"
#include "worker/train/model/model.hpp"
#include "worker/train/run/exit_code.hpp"
#include "worker/train/run/rank_environment.hpp"
#include "worker/train/run/trace.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

// What the tensor library gives.
struct Backend {
  std::function<std::unique_ptr<Model>(const recipe::ModelConfig&, ModelOptions, FlatState&, Comm&)>
      make_model;
  // Between devices: the state's.
  std::function<Result<std::unique_ptr<Comm>>(const RankEnvironment&, Mesh, Duration deadline,
                                              Device&)>
      connect;
  // The same ranks once more, for a thread beside the training: between memory of the CPU. After
  // `connect`.
  std::function<Result<std::unique_ptr<Comm>>(const RankEnvironment&, Duration deadline)> beside;
  std::function<void(std::uint32_t threads)> warm_up;
  std::function<std::map<std::string, std::string>(const Device&)> numerics;
  // The rank's GPU; null: this build knows none. `nodes_fault`: another node may do.
  std::function<Result<std::unique_ptr<Device>>(const RankEnvironment&, bool& nodes_fault)>
      open_gpu = nullptr;
};

struct SessionOptions {
  std::string config;              // path of TRAIN.yaml
  std::string kill_switch;         // a file: save and leave with code 11; "" = none
  std::set<std::string> accepted;  // items of the resume audit whose change is wanted
  TraceOptions trace;
};

// Every error is reported on stderr.
ExitCode run_session(const SessionOptions& options, const Backend& backend);

}  // namespace stoker::train
