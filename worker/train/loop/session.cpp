#include "worker/train/loop/session.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

#include "common/os/files.hpp"
#include "common/size_text.hpp"
#include "configs/schema/train_schema.hpp"
#include "worker/train/comm/self_comm.hpp"
#include "worker/train/loop/pipeline.hpp"
#include "worker/train/loop/resume.hpp"
#include "worker/train/loop/start_checks.hpp"
#include "worker/train/loop/trainer.hpp"
#include "worker/train/memory/snapshots.hpp"
#include "worker/train/run/pin_numerics.hpp"
#include "worker/train/run/rank_numerics.hpp"
#include "worker/train/run/say.hpp"
#include "worker/train/run/standby.hpp"

namespace stoker::train {
namespace {

constexpr const char* kSwitchFile = "switch/kill";  // in the working directory, without an agent

// What a start needs; all but the last part needs no peer.
struct Prepared {
  std::string text;  // of TRAIN.yaml
  configs::TrainConfigFile file;
  std::optional<InputData> data;
  std::optional<Pipeline> pipeline;
  // From here on of this rank, once it knows which one it is.
  ModelLayout layout;
  std::unique_ptr<Device> gpu;  // of the state and the model
  std::optional<FlatState> state;
  std::unique_ptr<Model> model;
  [[nodiscard]] const recipe::TrainConfig& config() const { return file.config; }
};

struct Failure {
  ExitCode code;
};
template <class T>
using Outcome = std::variant<T, Failure>;

Failure failed(ExitCode code, const Error& error) {
  complain(error);
  return {code};
}

std::optional<Failure> prepare_data(Prepared& p) {
  auto data = open_input(p.config());
  if (!data) return failed(ExitCode::Configuration, data.error());
  for (const Error& problem : data->train.problems()) complain("warning: " + problem.message());
  p.data.emplace(std::move(*data));
  return std::nullopt;
}

// train.threads, or where that is one, what the starter of the ranks says (torchrun's variable).
// Portable numbers depend on the configuration alone.
std::uint32_t threads_of(const recipe::TrainConfig& config) {
  if (config.train.numerics == recipe::Numerics::Portable) return config.train.threads;
  const char* text = std::getenv("OMP_NUM_THREADS");
  const unsigned long said = text != nullptr ? std::strtoul(text, nullptr, 10) : 0;
  constexpr unsigned long kMost = 1024;
  if (config.train.threads > 1 || said == 0 || said > kMost) return config.train.threads;
  return static_cast<std::uint32_t>(said);
}

Outcome<Prepared> prepare(const SessionOptions& options, const Backend& backend) {
  Prepared p;
  auto text = os::read_file(options.config, configs::kLargestYaml);
  if (!text) return failed(ExitCode::Configuration, text.error());
  p.text = std::move(*text);
  p.file = configs::read_train_config(p.text, options.config);
  for (const auto& error : p.file.errors) complain(error.text());
  if (!p.file.errors.empty()) return Failure{ExitCode::Configuration};
  if (Status pinned = pin_numerics(p.config().train.numerics); !pinned)
    return failed(ExitCode::Configuration, pinned.error());
  backend.warm_up(threads_of(p.config()));
  if (auto failure = prepare_data(p)) return *failure;
  auto pipeline = Pipeline::open(p.config());
  if (!pipeline) return failed(ExitCode::Configuration, pipeline.error());
  p.pipeline.emplace(std::move(*pipeline));
  return p;
}

// Where the training computes. The GPU is kept in `gpu`.
Outcome<Device*> open_device(const recipe::TrainConfig& c, const RankEnvironment& environment,
                             const Backend& backend, std::unique_ptr<Device>& gpu) {
  if (c.train.device == recipe::DeviceKind::Cpu) return &cpu_device();
  const std::string object = "train.device: cuda";
  if (!backend.open_gpu)
    return failed(ExitCode::Configuration,
                  {"this stoker-train was built without its GPU part", object,
                   "build it with ./dev build --preset cuda, or take train.device: cpu"});
  bool nodes_fault = false;
  auto opened = backend.open_gpu(environment, nodes_fault);
  if (!opened)
    return failed(nodes_fault ? ExitCode::DeviceFailed : ExitCode::Configuration, opened.error());
  gpu = std::move(*opened);
  return gpu.get();
}

std::optional<Failure> make_model(Prepared& p, const Backend& backend, Comm& comm, Device& device) {
  const recipe::TrainConfig& c = p.config();
  p.layout = {c.model, comm.mesh(), p.pipeline->rank_of_stage()};
  ParameterTable table = p.layout.of_rank(comm.rank());
  const FlatRange owned = c.parallel.zero > 0 ? own_range(table, comm.mesh(), comm.rank())
                                              : FlatRange{0, table.flat_size};
  auto state = FlatState::allocate(std::move(table), c.train.dtype, owned, device);
  if (!state)
    return failed(is_out_of_memory(state.error()) ? ExitCode::DeviceMemory : ExitCode::Failed,
                  state.error());
  p.state.emplace(std::move(*state));
  const ModelOptions options{c.train.seed, c.train.deadline, c.train.recompute,
                             c.train.recompute_every, c.parallel.sequence};
  p.model = backend.make_model(c.model, options, *p.state, comm);
  return std::nullopt;
}

// Nothing to resume from: ordered so, or there is no checkpoint.
bool has_no_checkpoint(const recipe::TrainConfig& c, const RankEnvironment& environment) {
  if (environment.load) return *environment.load == "none";
  const auto names = os::list_directory(c.checkpoint.directory);
  return !names || std::none_of(names->begin(), names->end(),
                                [](const std::string& name) { return name.starts_with("step-"); });
}

// Collective. Null: TRAIN.yaml asks for none, or there is no agent that gives memory. That it does
// not fit is an error of a first start, which has nothing to resume; later it must not end what has
// trained well.
Outcome<std::unique_ptr<Snapshots>> open_memory(const SessionOptions& options,
                                                const Backend& backend, const Prepared& p,
                                                const RankEnvironment& environment, Comm& comm) {
  const recipe::TrainConfig& c = p.config();
  if (c.checkpoint.memory_every == 0) return std::unique_ptr<Snapshots>();
  auto opened =
      Snapshots::open({comm, environment, *p.state, c.checkpoint.memory_every, c.train.deadline,
                       [&] { return backend.beside(environment, c.train.deadline); }});
  if (!opened) return failed(ExitCode::PeerLost, opened.error());
  const bool first = environment.first();
  if (const std::string& why = opened->no_room; !why.empty()) {
    const Error error{why, "checkpoint.memory", "take nodes with more memory, or leave it out"};
    if (environment.attempt.value <= 1 && has_no_checkpoint(c, environment)) {
      if (first)
        complain(
            refusal(p.file, options.config, {{"checkpoint", "memory"}, {"checkpoint"}}, error));
      return Failure{ExitCode::Configuration};
    }
    if (first) {
      complain("warning: no snapshots in memory: " + error.message());
      tell_event(wire::Notice{{}, "no snapshots in memory: " + error.message()});
    }
  }
  if (const Snapshots* made = opened->snapshots.get(); made != nullptr && first)
    say(fmt::format(
        "snapshots in memory every {} iteration{}: {} of this rank, two generations{}",
        c.checkpoint.memory_every, c.checkpoint.memory_every == 1 ? "" : "s",
        size_text(made->bytes()),
        made->has_partner() ? ", and the same on the next node" : ", on this node only"));
  return std::move(opened->snapshots);
}

// As the starter of the ranks says (torchrun's variable); without it they are on one node.
std::uint64_t ranks_per_node(std::uint32_t world) {
  const char* local = std::getenv("LOCAL_WORLD_SIZE");
  return local != nullptr ? std::strtoull(local, nullptr, 10) : world;
}

void tell_fallback(const Prepared& p, const Mesh& mesh, std::uint64_t consumed) {
  const auto plan = recipe::BatchPlan::make(p.config().batch);
  if (!plan) return;
  const std::string text =
      p.pipeline->fallback(plan->phases(p.config().train.samples), consumed, mesh.dp);
  if (!text.empty()) say("parallel.schedule: " + text);
}

ExitCode train(const SessionOptions& options, const Backend& backend, Prepared& p, Instant began) {
  auto environment = read_rank_environment();
  if (!environment) return failed(ExitCode::Configuration, environment.error()).code;
  const recipe::TrainConfig& c = p.config();
  const auto mesh = mesh_of(c, environment->world);
  if (!mesh) {
    complain(mesh_refusal(p.file, options.config, mesh.error()));
    return ExitCode::Configuration;
  }
  const auto refuses = [&](std::optional<std::uint64_t> consumed) {
    const Status legal =
        check_batches(c, *p.pipeline, *mesh, ranks_per_node(environment->world), consumed);
    if (!legal) complain(batch_refusal(p.file, options.config, legal.error()));
    return !legal;
  };
  // Before any peer is waited for: all that is known without the checkpoint.
  const auto begin =
      has_no_checkpoint(c, *environment) ? std::optional<std::uint64_t>(0) : std::nullopt;
  if (refuses(begin)) return ExitCode::Configuration;
  auto trace = Trace::open(options.trace,
                           {environment->rank, *mesh, os::host_name(), environment->store_prefix});
  if (!trace) return failed(ExitCode::Configuration, trace.error()).code;
  Pulse pulse = Pulse::open(environment->heartbeat, environment->attempt);
  watch_signals();
  const auto opened = open_device(c, *environment, backend, p.gpu);
  if (const auto* failure = std::get_if<Failure>(&opened)) return failure->code;
  Device& device = *std::get<Device*>(opened);
  std::unique_ptr<Comm> peers = std::make_unique<SelfComm>();
  if (environment->world > 1) {
    auto connected = backend.connect(*environment, *mesh, c.train.deadline, device);
    if (!connected) return failed(ExitCode::PeerLost, connected.error()).code;
    peers = std::move(*connected);
  }
  TracedComm comm(*peers, pulse, *trace);
  if (auto failure = make_model(p, backend, comm, device)) return failure->code;
  LeaveWatch leave{c.exit, began, environment->exit_before, options.kill_switch,
                   environment->run_directory ? "" : kSwitchFile};
  pulse.phase(wire::Phase::Load);
  auto memory = open_memory(options, backend, p, *environment, comm);
  if (const auto* failure = std::get_if<Failure>(&memory)) return failure->code;
  auto& snapshots = std::get<std::unique_ptr<Snapshots>>(memory);
  const auto numerics = numerics_of_all(
      comm, own_numerics(backend.numerics(device), c.train.numerics), c.train.deadline);
  if (!numerics) return failed(ExitCode::PeerLost, numerics.error()).code;
  const AuditFacts facts{c, p.data->train.digest(), comm.mesh(), *numerics, p.pipeline->order()};
  auto resumed = resume({c, *environment, facts, options.accepted, *p.state, p.layout, comm,
                         snapshots.get(), leave.switched_off()});
  if (const auto* code = std::get_if<ExitCode>(&resumed)) return *code;
  const auto& start = std::get<ResumePoint>(resumed);
  if (refuses(start.position.consumed_samples)) return ExitCode::Configuration;
  if (environment->first()) tell_fallback(p, *mesh, start.position.consumed_samples);
  auto trainer = std::make_unique<Trainer>(
      TrainerParts{c, *environment, facts, *p.model, *p.state, p.layout, *p.pipeline, comm,
                   p.data->train, p.data->validation ? &*p.data->validation : nullptr, pulse,
                   *trace, leave, snapshots.get()},
      start.position, start.from_checkpoint);
  const ExitCode code = trainer->run();
  // What is still being written or sent must not hold the exit of a rank whose peer is lost.
  if (code == ExitCode::PeerLost) {
    (void)trainer.release();
    (void)snapshots.release();
  }
  return code;
}

}  // namespace

ExitCode run_session(const SessionOptions& options, const Backend& backend) {
  Instant began = monotonic_now();
  auto prepared = std::make_unique<Outcome<Prepared>>(prepare(options, backend));
  if (const auto* failure = std::get_if<Failure>(prepared.get())) return failure->code;
  auto& ready = std::get<Prepared>(*prepared);
  if (const auto descriptor = standby_descriptor()) {
    const auto outcome = wait_for_order(*descriptor);
    if (!outcome) return failed(ExitCode::Failed, outcome.error()).code;
    if (*outcome == StandbyOutcome::Dismissed) return ExitCode::Finished;
    began = monotonic_now();
    const auto text = os::read_file(options.config, configs::kLargestYaml);
    if (!text || *text != ready.text || !is_current(*ready.data)) {  // changed meanwhile
      *prepared = prepare(options, backend);
      if (const auto* failure = std::get_if<Failure>(prepared.get())) return failure->code;
    }
  }
  const ExitCode code = train(options, backend, std::get<Prepared>(*prepared), began);
  // The writer of a save may still read the state: it ends with the process, which ends now.
  if (code == ExitCode::PeerLost) (void)prepared.release();
  return code;
}

}  // namespace stoker::train
