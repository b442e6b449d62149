// What each key means. The schema says which keys there are; a test compares the two.
#include "configs/schema/describe.hpp"

namespace stoker::configs {

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<KeyMeaning>& run_key_meanings() {
  static const std::vector<KeyMeaning> meanings = {
      {"run", "name", "name of the run: 1 to 64 of `A-Za-z0-9._-`, the first a letter or digit"},
      {"directory", "path", "run directory, on a disk that all nodes see"},
      {"group", "name", "unix group whose members may use the switch files; needs `directory`"},
      {"scheduler.kind", "local, slurm", "the scheduler: the embedded one of this host, or SLURM"},
      {"scheduler.rest.url", "URL",
       "slurmrestd in place of SLURM's commands: `unix:/PATH`, `https://HOST:PORT`, or `http://` "
       "to this host"},
      {"scheduler.rest.token_file", "path",
       "its token (`scontrol token`), mode 600; read for each question, so that it can be renewed"},
      {"scheduler.rest.ca_file", "path", "certificates to trust; none: the system's"},
      {"scheduler.rest.insecure", "true, false",
       "http to another host, or to any user's server here"},
      {"scheduler.cluster", "name",
       "of several SLURM clusters, the one where the run's jobs are (`sbatch -M`); none: the one "
       "that SLURM_CONF names"},
      {"scheduler.partition", "name", "SLURM partition"},
      {"scheduler.account", "name", "SLURM account"},
      {"scheduler.nodes", "nodes",
       "nodes that train; or a list by samples: `[{until_samples: 5000000, nodes: 32}, {nodes: "
       "64}]`"},
      {"scheduler.nodes_allowed", "nodes",
       "counts to fall back to when nodes are missing; none: all legal ones for the batch"},
      {"scheduler.spares", "nodes", "held in the allocation for restarts inside it"},
      {"scheduler.gpus_per_node", "GPUs", "none: no GPU option"},
      {"scheduler.cpus_per_task", "CPUs", "none: the scheduler's own"},
      {"scheduler.time_limit", "duration", "wall of one task"},
      {"scheduler.array.tasks", "tasks", "of one submission, one at a time"},
      {"scheduler.array.top_up_below", "tasks", "submit again when fewer are left"},
      {"scheduler.exclude", "hostlists", "nodes never to use, like `n[052-053]`"},
      {"scheduler.begin", "time", "`--begin` of the first submission"},
      {"scheduler.extra", "options", "passed to sbatch as they are"},
      {"train.command", "argv", "of every rank; no shell"},
      {"train.batch_script", "path",
       "an existing script, submitted as it is (`stoker adopt`); needs `watch.logs`"},
      {"train.ranks_per_node", "ranks", "processes a node"},
      {"train.environment", "variables", "added for the ranks"},
      {"train.unbuffered", "true, false",
       "sets PYTHONUNBUFFERED=1 for the ranks, so that their lines arrive at once"},
      {"train.preload", "modules",
       "`[torch, numpy]`: one idle Python interpreter a rank that has imported them, for restarts "
       "inside the allocation; its memory is used beside the training's (docs/operations.md)"},
      {"train.preload_cuda", "true, false",
       "the idle interpreters initialise CUDA (torch.cuda.init); without it one that has taken a "
       "GPU is ended"},
      {"train.preload_learned", "true, false",
       "they also import the installed modules that the script was seen to import; false: only "
       "those of `train.preload`"},
      {"train.setup", "path", "script sourced before the agent starts"},
      {"train.agent", "path", "stoker-agent; none: the one beside stokerd"},
      {"train.kill_switch", "path", "a foreign training's own switch file: it saves and leaves"},
      {"train.save_signal", "signal",
       "a foreign training's save signal; without one, and without a heartbeat page, `save` is "
       "refused with the reason"},
      {"train.finished", "exit_zero, map",
       "`exit_zero`: finished when all ranks exit with 0; or one of the two below; none: when "
       "iteration == total"},
      {"train.finished.iteration", "iterations", "the run is finished at this iteration"},
      {"train.finished.file", "path", "the run is finished when this file exists"},
      {"train.exit_before_limit", "duration",
       "save and leave this long before the wall; never less than twice the measured save"},
      {"watch.logs", "paths",
       "logs beyond what the agent captures, read for causes of failure; patterns with * allowed"},
      {"watch.progress", "auto, map",
       "`{iteration: 'step=(\\d+)', loss: 'loss=([0-9.eE+-]+)'}` for unknown log lines"},
      {"watch.kernel_logs", "paths",
       "kernel logs that stokerd can read, files with the kernel's facility alone; `%N` is the "
       "node's name"},
      {"watch.signatures", "paths",
       "failure signatures of this site (docs/diagnosis.md), beside ours"},
      {"watch.disk.paths", "paths", "file systems to watch beside the run directory's"},
      {"watch.disk.min_free", "share", "warn below"},
      {"watch.disk.min_free_inodes", "share", "warn below"},
      {"watch.shm.min_free", "share", "of /dev/shm: warn below; not in this version"},
      {"hang.floor", "duration", "no silence shorter than this is a hang"},
      {"hang.ceiling", "duration", "longest silence between iterations, however slow they are"},
      {"hang.phases.startup", "duration", "limit while nothing is learned yet"},
      {"hang.phases.load", "duration", "the same for loading a checkpoint"},
      {"hang.phases.checkpoint", "duration", "the same for saving"},
      {"hang.phases.evaluation", "duration", "the same for evaluation"},
      {"hang.phases.shutdown", "duration", "the same for leaving"},
      {"recover.in_allocation", "true, false", "restart the ranks without leaving the allocation"},
      {"recover.on_scancel", "hold, restart", "when the whole job was cancelled by hand"},
      {"recover.preflight", "true, false",
       "all nodes of the allocation are tested before the run's first start, their GPUs for a "
       "minute (docs/recovery.md); agents do it, so not beside train.batch_script"},
      {"recover.restarts.total", "restarts", "budget, refilled by progress"},
      {"recover.restarts.without_progress", "restarts", "in a row; then the run is held"},
      {"recover.restarts.refill", "duration", "of progress that earns the whole budget back"},
      {"recover.exclude.for", "duration", "how long a suspect node is left out"},
      {"recover.exclude.at_most", "share", "of the nodes; one may always be left out"},
      {"recover.exclude.drain", "true, false",
       "drain nodes that the kernel or the driver accuse, for everybody; SLURM lets only "
       "administrators do that (`sacctmgr modify user … set adminlevel=administrator`)"},
      {"recover.rollback.enabled", "true, false", "going back by itself when the loss diverges"},
      {"recover.rollback.lr_scale", "factor", "of the learning rate after it"},
      {"recover.rollback.at_most", "rollbacks", "in a row that did not help; then the run is held"},
      {"checkpoints.directory", "path", "relative to the run directory"},
      {"checkpoints.format", "stoker, megatron, deepspeed",
       "the last two only beside train.batch_script, for `stoker rollback`; they are not judged"},
      {"checkpoints.complete_when", "file", "of other formats; not in this version"},
      {"checkpoints.keep.last", "checkpoints",
       "newest good ones; older ones are deleted once a newer one is verified; 0: nothing is "
       "deleted"},
      {"checkpoints.keep.every", "iterations", "multiples of it are never deleted; 0: none"},
      {"checkpoints.keep.pin", "iterations", "`[30000]`: these are never deleted"},
      {"checkpoints.archive.to", "path",
       "copies of checkpoints go there, and none that is due is deleted before its copy was read "
       "back; a directory of this run alone, which exists; relative to this file"},
      {"checkpoints.archive.every", "iterations", "multiples of it are copied"},
      {"checkpoints.archive.without_optimizer", "true, false",
       "copies hold the parameters alone: a third of the size, for inference, not to resume from"},
      {"checkpoints.verify", "true, false", "read back before a restart relies on it"},
      {"checkpoints.interval", "auto, duration",
       "asks the training to save this long after its last save, beside its own schedule; `auto`: "
       "Daly's interval by this run's saves and failures; none: its own saves only"},
      {"checkpoints.interval_floor", "duration", "never asked for more often"},
      {"after", "list",
       "commands that are run on checkpoints, each time as a job of its own: `[{every: 1000, "
       "command: [evaluate.py, \"{checkpoint}\"]}]`; `name`, `environment`, `nodes` (1), "
       "`time_limit` (4h), `partition`, `account`, `gpus_per_node`, `cpus_per_task` (the "
       "training's), `at_once` (1), `tries` (3), `wait` (5min), `backlog` (3); "
       "docs/operations.md"},
      {"goodput.peak_tflops", "TFLOPs",
       "of one GPU in the training's number format, dense; with it status shows the MFU"},
      {"goodput.flops_per_sample", "FLOPs",
       "of the model, forward and backward; 0: those of TRAIN.yaml, where stoker-train trains"},
      {"goodput.gpu_watts", "watts", "of a GPU whose power no agent measures"},
      {"goodput.pue", "factor", "the computing centre's energy for one unit of the nodes'"},
      {"goodput.co2_g_per_kwh", "grams", "of the grid; 0: CO2 is not shown"},
      {"budget.gpu_hours", "GPU hours",
       "of the whole run, spares and starts included; alerts at 80 % and at 100 %, and status says "
       "whether the forecast fits; nothing stops; 0: no budget; needs `scheduler.gpus_per_node`"},
      {"alerts.sinks", "map",
       "`{chat: {kind: webhook, url: \"https://…\"}}`: name, kind and the options of the kind: "
       "docs/operations.md"},
      {"alerts.routes", "list",
       "`[{severity: critical, match: {kind: hang}, to: [chat], repeat: 1h}]`: this severity and "
       "above, labels that must be equal, sinks, and when to repeat an open alert (default 4h); "
       "group_by and group_wait of its own; `hang|limbo`: one of these, `*`: any"},
      {"alerts.group_by", "labels",
       "alerts with the same values go in one message: run, kind, severity, node; `[...]`: none "
       "do"},
      {"alerts.group_wait", "duration",
       "how long the first of a group waits for others; what is resolved until then is not sent"},
      {"alerts.quiet_hours", "map, list",
       "`{from: \"22:00\", to: \"07:00\", days: [sat, sun], zone: UTC}`: what is not critical "
       "waits "
       "until `to`; days on which it begins (default all), zone local or UTC (default local)"},
      {"alerts.escalate", "map, list",
       "`{after: 15min, to: [pager], severity: critical}`: an alert that is not acknowledged so "
       "long "
       "after its first sink had it goes to these too; `stoker ack` ends it"},
      {"alerts.inhibit", "list",
       "`[{source_match: {kind: node_fault}, target_match: {kind: hang}, equal: [run]}]`: while "
       "the "
       "first is open, the second waits; none: the rules of docs/operations.md; `[]`: no rule"},
      {"alerts.digest", "map",
       "`{day: mon, at: \"09:00\", zone: local, to: [mail]}`: once a week, what the week was like: "
       "goodput, incidents, nodes, GPU hours, forecast; `to` has no default"},
      {"alerts.page", "address",
       "where people open the page of this daemon, `https://login1.example.org:9470`: each message "
       "then links to its run"},
      {"alerts.dead_man.url_file", "path",
       "file with the URL that is called while stokerd observes the run; /start and /fail are "
       "appended; a receiver such as Healthchecks raises the alarm when the calls stop"},
      {"alerts.dead_man.every", "duration", "between two calls"},
  };
  return meanings;
}

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<KeyMeaning>& train_key_meanings() {
  static const std::vector<KeyMeaning> meanings = {
      {"model.layers", "layers", "transformer blocks"},
      {"model.hidden", "values", "width; a multiple of heads"},
      {"model.heads", "heads", "of attention"},
      {"model.sequence", "tokens", "of one sample"},
      {"model.vocabulary", "tokens", "size of the vocabulary"},
      {"model.ffn", "values", "inner width of the MLP"},
      {"model.dropout", "probability", "on embeddings, attention and both branches"},
      {"model.position", "learned", "position embedding"},
      {"model.init_std", "value", "standard deviation of the initial weights"},
      {"data.train", "data sets",
       "`[{prefix: PATH, weight: 1.0}]`: PATH.bin and PATH.idx, blended"},
      {"data.split", "weights", "training, validation, test"},
      {"data.seed", "number", "of the shuffle"},
      {"data.last_epoch_threshold", "share", "0.80 as Megatron, 0.95 as Megatron-DeepSpeed"},
      {"data.cache", "path", "folder of the cached index arrays"},
      {"batch.micro", "samples",
       "of one rank at once; or a list by samples: `[{until_samples: N, micro: 1}, {micro: 2}]`"},
      {"batch.global", "samples", "of one iteration"},
      {"batch.ramp_up", "map", "`{start: 32, increment: 32, samples: 2000000}`"},
      {"batch.steps", "text", "instead of ramp_up: `0:768 250M:1536`"},
      {"parallel.tensor", "parts", "tensor parallelism ([parallel training](parallel.md))"},
      {"parallel.pipeline", "stages", "pipeline parallelism"},
      {"parallel.schedule", "gpipe, 1f1b, interleaved, zb-h1, zb-v, FILE.csv",
       "pipeline schedule ([schedules](schedules.md))"},
      {"parallel.virtual_stages", "stages", "a rank: 2 or more with interleaved, 2 with zb-v"},
      {"parallel.sequence", "true, false",
       "sequence parallelism: tensor ranks share the tokens of norms and dropout"},
      {"parallel.zero", "level",
       "1: data-parallel ranks share the optimizer's state (ZeRO-1); the same bits"},
      {"train.samples", "samples", "length of the training: the data clock"},
      {"train.dtype", "f64, f32, bf16", "of the computation; masters are f32 or f64"},
      {"train.device", "cpu, cuda",
       "cuda: one GPU a rank (docs/gpu.md); a build of the preset cuda, f32 or bf16"},
      {"train.numerics", "native, portable",
       "portable: the same bits on every CPU with AVX2 and FMA, for mixed nodes"},
      {"train.recompute", "none, selective, full, map",
       "what the backward computes again, for less memory: nothing, the attention's scores, whole "
       "layers; `{every: 4}`: layers in stretches of four. The same bits"},
      {"train.curriculum", "map",
       "short sequences first ([parallel training](parallel.md)): `{kind: fixed_linear, min: 64, "
       "max: 2048, total: 36000, step: 8}`, tokens of a sample from min to max (the model's "
       "sequence) over total iterations, in multiples of step"},
      {"train.clip", "norm", "of the gradients; 0: no clipping"},
      {"train.seed", "number", "of initialisation and dropout"},
      {"train.threads", "threads", "of one rank; part of what exact depends on"},
      {"train.deadline", "duration", "of one step: a silent peer ends it with an error"},
      {"optimizer.kind", "adamw", "optimizer"},
      {"optimizer.beta1", "factor", "first moment"},
      {"optimizer.beta2", "factor", "second moment"},
      {"optimizer.eps", "value", "added to the root of the second moment"},
      {"optimizer.weight_decay", "factor", "not on biases and other 1-D parameters"},
      {"lr.max", "rate", "after the warm-up"},
      {"lr.min", "rate", "at the end of the decay"},
      {"lr.initial", "rate", "at 0 samples"},
      {"lr.warmup_samples", "samples", "linear from initial to max"},
      {"lr.style", "style", "constant, linear, cosine, inverse_square_root, warmup_stable_decay"},
      {"lr.decay_samples", "samples", "from here on min"},
      {"lr.wsd_decay_samples", "samples", "last stretch of warmup_stable_decay"},
      {"checkpoint.directory", "path", "of the checkpoints"},
      {"checkpoint.save", "rounds",
       "`[{until: 100, every: 10}, {every: 1500}]`, in iterations; default every 1000"},
      {"checkpoint.asynchronous", "true, false", "write while the training goes on"},
      {"checkpoint.memory", "map",
       "`{every: 10}`: iterations between snapshots in the memory of this node and of the next one "
       "([recovery](recovery.md#snapshots-in-memory))"},
      {"checkpoint.samples_log", "path", "iteration to sample ids and data sets"},
      {"evaluate.every", "iterations", "0: never"},
      {"evaluate.iterations", "iterations", "of one evaluation"},
      {"evaluate.save_before", "true, false", "a checkpoint before each evaluation"},
      {"check.replicas_every", "iterations",
       "between comparisons of all copies of parameters and moments; 0: only before a save"},
      {"check.on_drift", "stop, repair",
       "what follows when copies differ: exit with 24, or take over the good copy and go on"},
      {"check.replay_every", "iterations",
       "between replays of a micro-batch on its own rank and on the next: silent data corruption; "
       "0: "
       "never"},
      {"log.every", "iterations", "between log lines"},
      {"log.norms", "true, false",
       "norm of the parameters, zeros among the gradients, gradient norm of each layer; the "
       "alert of a loss spike names the layer that rose first"},
      {"log.tensorboard", "path", "folder of TensorBoard's files"},
      {"exit.duration", "duration", "save and leave after it"},
      {"exit.iteration", "iterations", "save and leave at it"},
      {"exit.samples", "samples", "save and leave at it"},
  };
  return meanings;
}

}  // namespace stoker::configs
