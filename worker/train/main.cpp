// stoker-train: the training core's command line.
#include <cstdio>
#include <iostream>
#include <malloc.h>
#include <map>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "common/manual_page.hpp"
#include "common/os/descriptors.hpp"
#include "worker/train/command/prepare_command.hpp"
#include "worker/train/command/samples_command.hpp"
#include "worker/train/command/schedule_command.hpp"
#include "worker/train/command/trace_command.hpp"
#include "worker/train/exchange/evaluate_command.hpp"
#include "worker/train/exchange/export_command.hpp"
#include "worker/train/exchange/generate_command.hpp"
#include "worker/train/exchange/import_command.hpp"
#include "worker/train/inspect/inspect_command.hpp"
#include "worker/train/loop/dry_run.hpp"
#include "worker/train/loop/session.hpp"
#include "worker/train/run/say.hpp"
#if defined(STOKER_CUDA)
#include "worker/train/torch/cuda_backend.hpp"
#include "worker/train/torch/gpu_operators.hpp"
#endif
#include "worker/train/torch/gloo_comm.hpp"
#include "worker/train/torch/gpt.hpp"
#include "worker/train/torch/torch_numerics.hpp"

namespace {

using namespace stoker;
using namespace stoker::train;

constexpr int kUsage = 2;
constexpr const char* kExamples =
    "Examples:\n"
    "  stoker-train prepare LICENSE README.md -o data/text --bytes\n"
    "  stoker-train --config train.yaml\n"
    "  RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 stoker-train --config "
    "train.yaml\n"
    "  stoker-train --config train.yaml --dry-run --ranks 384 --ranks-per-node 8\n"
    "  stoker-train inspect checkpoints/step-000100.g000001 --verify\n"
    "  stoker-train export checkpoints/step-000100.g000001 -o for-transformers\n"
    "Exit codes: 0 finished, 10 duration or signal (saved), 11 kill switch, 12 exit point,\n"
    "  20 peer lost, 21 checkpoint refused, 22 configuration, 23 disk full,\n"
    "  24 numbers differ that must be equal, 25 out of device memory, 26 the GPU failed,\n"
    "  27 the data cannot be read.";

ManualHead manual() {
  return {"stoker-train",
          STOKER_VERSION,
          "the training core of stoker: trains a GPT",
          "Trains what TRAIN.yaml describes, one process a rank. A training that is stopped at any "
          "moment and started again goes on from its newest checkpoint, exact to the bit where the "
          "build, the libraries, the machine and the topology are the same. Without a command it "
          "trains; the commands prepare data and work on checkpoints.",
          {{"stoker", 1}, {"stoker-agent", 1}, {"stoker-plan", 1}, {"stoker-train", 5}}};
}

#if defined(STOKER_CUDA)
const auto kOpenGpu = open_gpu;
const auto connect_devices = connect_gpus;
const auto device_numerics = gpu_numerics;
const auto device_operators = gpu_operators;
#else
const auto kOpenGpu = nullptr;
Result<std::unique_ptr<Comm>> connect_devices(const GlooOptions&, Device&) {
  return fail("this build knows no GPU");
}
std::map<std::string, std::string> device_numerics() {
  return {};
}
const auto device_operators = libtorch_operators;
#endif

std::map<std::string, std::string> numerics_of(const Device& device) {
  auto all = torch_numerics();
  if (!device.is_host()) all.merge(device_numerics());
  return all;
}

std::unique_ptr<Model> make_model(const recipe::ModelConfig& config, ModelOptions options,
                                  FlatState& state, Comm& comm) {
  const bool on_cpu = state.device().is_host();
  return make_gpt(config, options, state, comm, on_cpu ? libtorch_operators() : device_operators());
}

Backend torch_backend() {
  return {make_model,
          [](const RankEnvironment& e, Mesh mesh, Duration deadline, Device& device) {
            const GlooOptions options{e.master_address, e.master_port, e.store_prefix,
                                      e.rank,           mesh,          deadline};
            return device.is_host() ? connect_gloo(options) : connect_devices(options, device);
          },
          [](const RankEnvironment& e, Duration deadline) {
            const std::string prefix = e.store_prefix + ".memory";
            const Mesh all{1, 1, e.world};
            return connect_gloo({e.master_address, e.master_port, prefix, e.rank, all, deadline,
                                 GlooStore::Theirs});
          },
          warm_up_torch,
          numerics_of,
          kOpenGpu};
}

// Large blocks stay in the heap: activations of one iteration are those of the next, and fetching
// fresh pages for them costs more than many operators.
void keep_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, -1);
}

// What a verb came to: its exit status, or one line on stderr and 1.
int status_of(const Result<int>& done) {
  if (done) return *done;
  complain(done.error());
  return static_cast<int>(ExitCode::Failed);
}

CLI::App* add_prepare(CLI::App& app, PrepareOptions& o) {
  CLI::App* verb = app.add_subcommand("prepare", "tokenize text into PREFIX.bin and PREFIX.idx");
  verb->footer("Example: stoker-train prepare LICENSE -o data/text --bytes --documents paragraph");
  verb->add_option("texts", o.texts, "text files")->required();
  verb->add_option("-o,--output", o.prefix, "prefix of the two files")->required();
  verb->add_flag("--bytes", o.bytes, "one token a byte (the default)");
  verb->add_option("--merges", o.merges, "GPT-2's merges.txt");
  verb->add_option("--train-vocabulary", o.train_vocabulary,
                   "learn a BPE vocabulary of this size from the text");
  const std::map<std::string, DocumentKind> kinds{{"file", DocumentKind::File},
                                                  {"paragraph", DocumentKind::Paragraph},
                                                  {"line", DocumentKind::Line},
                                                  {"jsonl", DocumentKind::Jsonl}};
  verb->add_option("--documents", o.documents, "what is a document: file, paragraph, line, jsonl")
      ->transform(CLI::CheckedTransformer(kinds));
  return verb;
}

CLI::App* add_samples(CLI::App& app, SamplesOptions& o) {
  CLI::App* verb = app.add_subcommand("samples", "the samples and texts of an iteration");
  verb->footer("Example: stoker-train samples --iteration 1200 --config train.yaml");
  o.config = "train.yaml";
  verb->add_option("--config", o.config, "TRAIN.yaml")->capture_default_str();
  verb->add_option("--iteration", o.iteration.value, "from 1")->required();
  verb->add_option("--samples-log", o.log, "instead of the configured one");
  verb->add_flag("--json", o.json, "one JSON document");
  return verb;
}

CLI::App* add_inspect(CLI::App& app, InspectOptions& o) {
  CLI::App* verb = app.add_subcommand("inspect", "what a checkpoint holds");
  verb->footer("Example: stoker-train inspect checkpoints/step-000100.g000001 --verify --json");
  verb->add_option("checkpoint", o.checkpoint, "its directory")->required();
  verb->add_flag("--verify", o.verify, "read and compare every byte");
  verb->add_flag("--json", o.json, "one JSON document");
  return verb;
}

CLI::App* add_schedule(CLI::App& app, ScheduleOptions& o) {
  CLI::App* verb =
      app.add_subcommand("schedule", "draws a pipeline schedule, its bubble and memory");
  verb->footer("Example: stoker-train schedule --kind zb-v --stages 4 --micro-batches 8");
  verb->add_option("--kind", o.kind, "gpipe, 1f1b, interleaved, zb-h1, zb-v")
      ->capture_default_str();
  verb->add_option("--stages", o.stages, "pipeline ranks")->capture_default_str();
  verb->add_option("--micro-batches", o.micro_batches, "of a step")->capture_default_str();
  verb->add_option("--virtual-stages", o.virtual_stages, "chunks a rank, for interleaved");
  verb->add_option("--file", o.file, "a schedule as CSV instead; validated first");
  verb->add_option("--forward", o.forward, "time of F")->capture_default_str();
  verb->add_option("--input-gradient", o.input, "time of I; 2 with full recomputation")
      ->capture_default_str();
  verb->add_option("--weight-gradient", o.weight, "time of W")->capture_default_str();
  verb->add_option("--hop", o.hop, "from rank to rank")->capture_default_str();
  verb->add_flag("--svg", o.svg, "the picture as SVG");
  verb->add_flag("--csv", o.csv, "the operations as CSV, for parallel.schedule");
  verb->add_flag("--operations", o.operations, "with transfers, slots and reductions");
  verb->add_flag("--json", o.json, "one JSON document");
  return verb;
}

CLI::App* add_trace(CLI::App& app, TraceCommandOptions& o) {
  CLI::App* verb = app.add_subcommand("trace", "puts the ranks' traces together into one file");
  verb->footer("Example: stoker-train trace step.json");
  verb->add_option("file", o.file, "as it was given to --trace")->required();
  verb->add_flag("--json", o.json, "one JSON document");
  return verb;
}

CLI::App* add_export(CLI::App& app, ExportOptions& o) {
  CLI::App* verb =
      app.add_subcommand("export", "a checkpoint as Hugging Face's GPT-2 (safetensors)");
  verb->footer("Example: stoker-train export checkpoints/step-000100.g000001 -o for-transformers");
  verb->add_option("checkpoint", o.checkpoint, "its directory, of any mesh")->required();
  verb->add_option("-o,--output", o.output, "a new folder")->required();
  verb->add_option("--tokenizer", o.tokenizer, "PREFIX of the data, instead of the training's");
  verb->add_option("--shard-size", o.shard_size, "bytes of a file, at most; 5GB when not given")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::PositiveNumber);
  return verb;
}

CLI::App* add_import(CLI::App& app, ImportOptions& o) {
  CLI::App* verb =
      app.add_subcommand("import", "Hugging Face's GPT-2 as a checkpoint to train on from");
  verb->footer("Example: stoker-train import gpt2 -o checkpoints");
  verb->add_option("folder", o.folder, "config.json and model.safetensors")->required();
  verb->add_option("-o,--output", o.checkpoints, "the training's checkpoint.directory")->required();
  return verb;
}

CLI::App* add_generate(CLI::App& app, GenerateOptions& o) {
  CLI::App* verb = app.add_subcommand("generate", "text that a checkpoint's model writes");
  verb->footer("Example: stoker-train generate checkpoints/step-000100.g000001 --prompt 'The '");
  verb->add_option("checkpoint", o.checkpoint, "its directory, of any mesh")->required();
  verb->add_option("--prompt", o.prompt, "what the text begins with");
  verb->add_option("--tokens", o.tokens, "at most")->capture_default_str();
  verb->add_option("--temperature", o.rule.temperature, "0: always the likeliest token")
      ->capture_default_str();
  verb->add_option("--top-k", o.rule.top_k, "draw from the k likeliest tokens; 0: from all")
      ->capture_default_str();
  verb->add_option("--seed", o.rule.seed, "the same seed draws the same text")
      ->capture_default_str();
  verb->add_option("--threads", o.threads, "of this process")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_option("--tokenizer", o.tokenizer, "PREFIX of the data, instead of the training's");
  verb->add_flag("--json", o.json, "one JSON document, with tokens and log probabilities");
  return verb;
}

CLI::App* add_evaluate(CLI::App& app, EvaluateOptions& o) {
  CLI::App* verb = app.add_subcommand("evaluate", "a checkpoint's loss on the validation split");
  verb->footer("Example: stoker-train evaluate --checkpoint checkpoints/step-000100.g000001");
  o.config = "train.yaml";
  verb->add_option("--checkpoint", o.checkpoint, "its directory, of any mesh")->required();
  verb->add_option("--config", o.config, "TRAIN.yaml")->capture_default_str();
  verb->add_flag("--json", o.json, "one JSON document");
  return verb;
}

void add_training(CLI::App& app, SessionOptions& session, std::vector<std::string>& accepted) {
  app.add_option("--config", session.config, "TRAIN.yaml: trains what it describes");
  app.add_option("--kill-switch", session.kill_switch,
                 "when this file appears: save and leave with code 11");
  app.add_option("--accept", accepted,
                 "an item of the resume audit whose change is wanted (repeatable)");
  app.add_option("--trace", session.trace.file,
                 "writes what each rank does in an iteration, in Chrome's trace format: FILE, or "
                 "one file a rank");
  app.add_option_function<std::string>(
         "--trace-iterations",
         [&session](const std::string& text) {
           const auto range = parse_trace_range(text);
           if (!range) throw CLI::ValidationError(range.error().message());
           session.trace.range = *range;
         },
         "12 or 12-15; without it the second one of this start")
      ->needs("--trace");
}

void add_dry_run(CLI::App& app, DryRunOptions& o, bool& wanted) {
  CLI::Option* dry =
      app.add_flag("--dry-run", wanted,
                   "checks what a start checks, for all ranks at once; says what each needs")
          ->needs("--config");
  app.add_option("--ranks", o.ranks, "of the dry run; one replica when not given")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(dry);
  app.add_option("--ranks-per-node", o.ranks_per_node, "of the dry run; all when not given")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(dry);
  app.add_flag("--without-data", o.without_data, "the dry run leaves out the data")->needs(dry);
}

// The verbs about a trained model, apart from its training.
struct Exchange {
  explicit Exchange(CLI::App& app)
      : exports(add_export(app, export_to)),
        imports(add_import(app, import_from)),
        generates(add_generate(app, generate)),
        evaluates(add_evaluate(app, evaluate)) {}

  std::optional<int> run() {
    if (exports->parsed()) return run_export(export_to);
    if (imports->parsed()) return run_import(import_from);
    if (evaluates->parsed()) return run_evaluate(evaluate, torch_backend());
    if (!generates->parsed()) return std::nullopt;
    warm_up_torch(generate.threads);
    return run_generate(generate, make_predictor);
  }

  ExportOptions export_to;
  ImportOptions import_from;
  GenerateOptions generate;
  EvaluateOptions evaluate;
  const CLI::App *exports, *imports, *generates, *evaluates;
};

int run(int argc, char** argv) {
  CLI::App app{"Trains a GPT, with restarts that are exact to the bit."};
  app.footer(kExamples);
  app.set_version_flag("--version", "stoker-train " STOKER_VERSION);
  app.add_flag_callback("--manual",
                        [&app] {
                          std::fputs(manual_page(app, manual()).c_str(), stdout);
                          throw CLI::Success();
                        })
      ->group("");  // for the packages
  app.require_subcommand(0, 1);
  SessionOptions session;
  std::vector<std::string> accepted;
  add_training(app, session, accepted);
  DryRunOptions dry;
  bool dry_wanted = false;
  add_dry_run(app, dry, dry_wanted);
  PrepareOptions prepare;
  SamplesOptions samples;
  InspectOptions inspect;
  ScheduleOptions schedule;
  TraceCommandOptions trace;
  const CLI::App* prepares = add_prepare(app, prepare);
  const CLI::App* tells_samples = add_samples(app, samples);
  const CLI::App* inspects = add_inspect(app, inspect);
  const CLI::App* draws = add_schedule(app, schedule);
  const CLI::App* merges = add_trace(app, trace);
  Exchange exchange(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (prepares->parsed()) return status_of(run_prepare(prepare));
  if (tells_samples->parsed()) return status_of(run_samples(samples));
  if (inspects->parsed()) return status_of(run_inspect(inspect));
  if (draws->parsed()) return run_schedule_command(schedule);
  if (merges->parsed()) return status_of(run_trace(trace));
  if (const auto code = exchange.run()) return *code;
  if (session.config.empty()) {
    std::cerr << app.help();
    return kUsage;
  }
  session.accepted = {accepted.begin(), accepted.end()};
  if (dry_wanted) {
    dry.config = session.config;
    dry.accepted = session.accepted;
    return static_cast<int>(run_dry(dry));
  }
  return static_cast<int>(run_session(session, torch_backend()));
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  os::raise_descriptor_limit();  // five files of each data set stay open
  const int code = run(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  // Not exit(): threads of a broken process group may wait endlessly in destructors.
  ::_exit(code);
}
