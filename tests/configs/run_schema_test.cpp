// RUN.yaml: the defaults of the contract, each refusal with its position, all of them at once.
#include "configs/schema/run_schema.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/alerts/alert_policy.hpp"
#include "run_text.hpp"

using namespace stoker;
using namespace stoker::configs;
using namespace stoker::configs::testing;

namespace {

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> out;
  for (const Diagnostic& d : read(text).errors) out.push_back(d.text());
  return out;
}

}  // namespace

TEST_CASE("run_schema: the smallest file -> the defaults of the contract") {
  const auto file = read(
      "run: hello\nscheduler: {kind: local, nodes: 2}\n"
      "train: {command: [stoker-train, --config, train.yaml]}\n");
  REQUIRE(file.errors.empty());
  const core::RunPolicy& p = file.policy;
  CHECK(p.run == RunName("hello"));
  CHECK(p.directory == "/state/runs/hello");
  CHECK(p.config_path == "/home/alice/run.yaml");
  CHECK(p.config_directory == "/home/alice");
  CHECK(p.scheduler.kind == core::SchedulerKind::Local);
  CHECK(p.scheduler.nodes == std::vector<core::NodesStep>{{0, 2}});
  CHECK(p.scheduler.time_limit == 20h);
  CHECK(p.scheduler.array_tasks == 10);
  CHECK(p.scheduler.top_up_below == 2);
  CHECK(p.train.command == std::vector<std::string>{"stoker-train", "--config", "train.yaml"});
  CHECK(p.train.ranks_per_node == 1);
  CHECK(p.train.exit_before_limit == 10min);
  CHECK(p.hang == core::HangPolicy{});
  CHECK(p.recover == core::RecoverPolicy{});
  CHECK(p.checkpoints == core::CheckpointPolicy{});
  CHECK(p.alerts == core::AlertPolicy{});
}

TEST_CASE("run_schema: values of every section -> the policy has them") {
  const auto file = read(R"(run: tr11
directory: ../runs/tr11
scheduler:
  kind: slurm
  partition: gpu_p5
  account: six@a100
  nodes: [{until_samples: 5000000, nodes: 32}, {nodes: 64}]
  nodes_allowed: [24, 32, 48]
  spares: 1
  gpus_per_node: 8
  cpus_per_task: 64
  time_limit: 1h30min
  array: {tasks: 5, top_up_below: 1}
  exclude: ["n[052-053]", x1]
  begin: tomorrow
  extra: ["--hint=nomultithread"]
train:
  command: [/sw/train, --deep]
  ranks_per_node: 8
  environment: {NCCL_DEBUG: WARN}
  setup: env.sh
  save_signal: SIGUSR1
  finished: {iteration: 115311}
watch: {progress: {iteration: 'step=(\d+)', loss: 'loss=(\S+)'}}
hang: {floor: 30s, ceiling: 10min, phases: {load: 2h}}
recover:
  {in_allocation: false, on_scancel: restart, restarts: {total: 7},
   exclude: {at_most: 25%, drain: true}}
checkpoints: {keep: {last: 3, every: 1000, pin: [30000]}, archive: {to: ../store, every: 10000}}
alerts:
  sinks: {chat: {kind: webhook, url: "http://x/", headers: [a, b], token_file: t.key}}
  routes: [{severity: critical, match: {kind: node_fault}, to: [chat], repeat: 1h}]
)");
  for (const auto& e : file.errors) MESSAGE(e.text());
  REQUIRE(file.errors.empty());
  const core::RunPolicy& p = file.policy;
  CHECK(p.directory == "/home/runs/tr11");
  CHECK(p.scheduler.nodes == std::vector<core::NodesStep>{{5000000, 32}, {0, 64}});
  CHECK(p.scheduler.nodes_allowed == std::vector<std::uint32_t>{24, 32, 48});
  CHECK(p.scheduler.gpus_per_node == 8);
  CHECK(p.scheduler.time_limit == 90min);
  CHECK(p.scheduler.exclude ==
        std::vector<NodeName>{NodeName("n052"), NodeName("n053"), NodeName("x1")});
  CHECK(p.scheduler.begin == "tomorrow");
  CHECK(p.scheduler.extra == std::vector<std::string>{"--hint=nomultithread"});
  CHECK(p.train.setup == "/home/alice/env.sh");
  CHECK(p.train.save_signal == "USR1");
  CHECK(p.train.finished.iteration == 115311);
  CHECK(p.watch.progress.at("iteration") == "step=(\\d+)");
  CHECK(p.hang.load == 2h);
  CHECK(p.recover.restarts_total == 7);
  CHECK(p.recover.on_scancel == core::OnScancel::Restart);
  CHECK(p.recover.exclude_at_most == doctest::Approx(0.25));
  CHECK(p.recover.exclude_drain);
  REQUIRE(p.alerts.sinks.size() == 1);
  CHECK(p.alerts.sinks[0].options.at("headers") == R"(["a","b"])");
  CHECK(p.alerts.sinks[0].options.at("token_file") == "/home/alice/t.key");
  CHECK(p.alerts.routes[0].severity == core::Severity::Critical);
  CHECK(p.alerts.routes[0].repeat == 1h);
  CHECK(p.checkpoints.keep_last == 3);
  CHECK(p.checkpoints.keep_every == 1000);
  CHECK(p.checkpoints.pin == std::vector<std::uint64_t>{30000});
  CHECK(p.checkpoints.archive_to == "/home/store");
  CHECK(p.checkpoints.archive_every == 10000);
  CHECK_FALSE(p.checkpoints.archive_without_optimizer);
}

TEST_CASE("run_schema: an archive that could not work -> refused where it is asked for") {
  CHECK(error_of("checkpoints: {archive: {to: /x}}").find("at least 1") != std::string::npos);
  CHECK(error_of("checkpoints: {archive: {every: 5}}").find("where do") != std::string::npos);
  const auto errors = errors_of(
      "run: a\ntrain: {batch_script: x.sh}\ncheckpoints: {archive: {to: /x, every: 5}}\n");
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].find("a batch script has no agent") != std::string::npos);
}

TEST_CASE("run_schema: keep.every or keep.pin without keep.last -> refused, nothing would go") {
  CHECK(error_of("checkpoints: {keep: {pin: [3]}}").starts_with("run.yaml:3:27: error: pin"));
  CHECK(error_of("checkpoints: {keep: {every: 9}}").starts_with("run.yaml:3:29: error: every"));
}

TEST_CASE("run_schema: many mistakes -> all of them at once, by position") {
  const auto errors = errors_of(
      "run: .bad\n"
      "ruun: x\n"
      "scheduler: {kind: slrm, nodes: 0, time_limit: 10x, nodes: 3}\n"
      "train: {comand: [a]}\n"
      "hang: {floor: 0s}\n");
  REQUIRE(errors.size() == 9);
  CHECK(errors[0].starts_with("run.yaml:1:6: error: run: a run's name is 1 to 64"));
  CHECK(errors[1] == "run.yaml:2:1: error: unknown key \"ruun\"; did you mean \"run\"?");
  CHECK(errors[2].starts_with("run.yaml:3:19: error: kind: expected one of local, slurm"));
  CHECK(errors[3].starts_with("run.yaml:3:32: error: nodes: must be between 1 and"));
  CHECK(errors[4].starts_with("run.yaml:3:47: error: time_limit: expected a duration"));
  CHECK(errors[5].starts_with("run.yaml:3:52: error: duplicate key \"nodes\""));
  CHECK(errors[6] == "run.yaml:4:8: error: one of command, batch_script is missing");
  CHECK(errors[7] == "run.yaml:4:9: error: unknown key \"comand\"; did you mean \"command\"?");
  CHECK(errors[8] == "run.yaml:5:15: error: floor: must be longer than 0s");
}

TEST_CASE("run_schema: what is missing -> said at the map around it") {
  CHECK(errors_of("scheduler: {nodes: 1}\n") ==
        std::vector<std::string>{"run.yaml:1:1: error: \"run\" is missing",
                                 "run.yaml:1:1: error: \"train\" is missing",
                                 "run.yaml:1:1: error: one of command, batch_script is missing"});
  CHECK(errors_of("").size() == 1);
  CHECK(errors_of("[]").size() == 1);
}

TEST_CASE("run_schema: values of later versions -> refused at their position") {
  CHECK(error_of("checkpoints: {format: pattern}").starts_with("run.yaml:3:23: error: format:"));
  CHECK(error_of("checkpoints: {format: megatron}").find("train.batch_script") !=
        std::string::npos);
  CHECK(error_of("watch: {shm: {min_free: 10%}}").starts_with("run.yaml:3:25: error: min_free"));
  CHECK(error_of("alerts: {dead_man: {every: 0s}}").starts_with("run.yaml:3:28: error: every"));
}

TEST_CASE("run_schema: a batch script needs nothing of the agent's") {
  CHECK(errors_of("run: a\ntrain: {batch_script: x.sh}\n").empty());
  CHECK(
      errors_of("run: a\ntrain: {batch_script: x.sh}\ncheckpoints: {format: megatron}\n").empty());
  const auto both = errors_of("run: a\ntrain: {batch_script: x.sh, setup: env.sh}\n");
  REQUIRE(both.size() == 1);
  CHECK(both[0].starts_with("run.yaml:2:36: error: setup: has no use beside batch_script"));
}

TEST_CASE("run_schema: sinks and routes -> unknown kinds, options and names are named") {
  CHECK(error_of("alerts: {sinks: {a: {kind: webhok, x: 1}}}") ==
        "run.yaml:3:28: error: kind: this version of stoker knows no sink \"webhok\"; did you mean "
        "\"webhook\"?");
  CHECK(error_of("alerts: {sinks: {a: {kind: webhook}}}") ==
        "run.yaml:3:21: error: \"alerts.sinks.a.url\" is missing");
  CHECK(error_of("alerts: {sinks: {a: {kind: pulse, pth: x}}}") ==
        "run.yaml:3:35: error: unknown key \"pth\"; did you mean \"path\"?");
  CHECK(error_of("alerts: {sinks: {mail: {kind: pulse}}, routes: [{to: [mial]}]}") ==
        "run.yaml:3:54: error: to: \"mial\" is no sink of alerts.sinks; did you mean \"mail\"?");
  auto strict = context();
  strict.sink_error = [](const core::SinkPolicy&) { return std::string("no"); };
  const auto file = read_run_config(kTrain + "alerts: {sinks: {a: {kind: pulse}}}", strict);
  REQUIRE(file.errors.size() == 1);
  CHECK(file.errors[0].text() == "run.yaml:3:21: error: no");
}

TEST_CASE("run_schema: what holds between values -> checked") {
  CHECK(error_of("hang: {floor: 10min, ceiling: 5min}") ==
        "run.yaml:3:31: error: ceiling: 5min is shorter than hang.floor 10min");
  CHECK(error_of("scheduler: {array: {tasks: 2, top_up_below: 3}}")
            .starts_with("run.yaml:3:45: error: top_up_below"));
  CHECK(error_of("group: users").starts_with("run.yaml:3:8: error: group: a run of a group"));
  CHECK(error_of("scheduler: {nodes: [{until_samples: 9, nodes: 1}]}")
            .starts_with("run.yaml:3:20: error: nodes: expected growing"));
  CHECK(error_of("scheduler: {exclude: ['n[1-']}").starts_with("run.yaml:3:22: error: exclude: "));
  const auto late = errors_of(
      "run: a\nscheduler: {time_limit: 5min}\ntrain: {command: [x], exit_before_limit: 10min}\n");
  REQUIRE(late.size() == 1);
  CHECK(late[0].starts_with("run.yaml:3:42: error: train.exit_before_limit: 10min is not shorter"));
}

TEST_CASE("run_schema: a short time limit -> the default margin shrinks with it") {
  const auto file = read("run: a\nscheduler: {time_limit: 4min}\ntrain: {command: [x]}\n");
  CHECK(file.errors.empty());
  CHECK(file.policy.train.exit_before_limit == 1min);
}

TEST_CASE("run_schema: finished and progress -> their other shapes") {
  CHECK(
      read("run: a\ntrain: {command: [x], finished: exit_zero}\n").policy.train.finished.exit_zero);
  CHECK(
      read("run: a\ntrain: {command: [x], finished: {file: DONE}}\n").policy.train.finished.file ==
      "/home/alice/DONE");
  CHECK(errors_of("run: a\ntrain: {command: [x], finished: maybe}\n")[0].starts_with(
      "run.yaml:2:33: error: finished: expected exit_zero"));
  CHECK(error_of("watch: {progress: x}").starts_with("run.yaml:3:19: error: progress: expected"));
  CHECK(error_of("watch: {progress: {iteration: step}}")
            .starts_with("run.yaml:3:31: error: iteration: the number must stand in a group"));
}

TEST_CASE("run_schema: names of runs -> letters first, 64 at most") {
  for (const char* good : {"a", "tr11-176B-ml", "9.x_y"}) CHECK(is_run_name(good));
  for (const char* bad : {"", ".a", "-a", "a b", "a/b", "ä"}) CHECK_FALSE(is_run_name(bad));
  CHECK(is_run_name(std::string(64, 'a')));
  CHECK_FALSE(is_run_name(std::string(65, 'a')));
}

TEST_CASE("run_schema: --effective -> each value with its origin") {
  const auto file = read("run: hello\ntrain:\n  command: [x]\nhang: {floor: 30s}\n");
  CHECK(file.effective.find("floor: 30s") != std::string::npos);
  CHECK(file.effective.find("# run.yaml:4") != std::string::npos);
  CHECK(file.effective.find("ceiling: 30min") != std::string::npos);
  CHECK(file.position_of("hang.floor") == Position{4, 15});
  CHECK(file.position_of("train.command.[0]") == Position{3, 13});
  CHECK(file.position_of("hang.ceiling") == Position{4, 15});
}

TEST_CASE("run_schema: checkpoints.interval -> auto, a duration, or nothing") {
  CHECK(!read(kTrain).policy.checkpoints.interval_auto);
  CHECK(read(kTrain + "checkpoints: {interval: auto}").policy.checkpoints.interval_auto);
  const auto fixed = read(kTrain + "checkpoints: {interval: 30min, interval_floor: 2min}");
  CHECK(fixed.errors.empty());
  CHECK(fixed.policy.checkpoints.interval == 30min);
  CHECK(fixed.policy.checkpoints.interval_floor == 2min);
  CHECK(error_of("checkpoints: {interval: often}").find("expected auto or a duration") !=
        std::string::npos);
}

TEST_CASE("run_schema: goodput -> what MFU and energy are reckoned with; nonsense is refused") {
  const auto file =
      read(kTrain + "goodput: {peak_tflops: 312, flops_per_sample: 1.2e16, pue: 1.1}");
  CHECK(file.errors.empty());
  CHECK(file.policy.goodput.peak_tflops == 312);
  CHECK(file.policy.goodput.sample_flops == 1.2e16);
  CHECK(file.policy.goodput.pue == 1.1);
  CHECK(error_of("goodput: {pue: 0.5}").find("between 1 and 10") != std::string::npos);
  CHECK(error_of("goodput: {gpu_watts: -1}").find("between") != std::string::npos);
}

TEST_CASE("run_schema: unbuffered and preload -> variables of the ranks") {
  const std::string run = "run: hello\ntrain: {command: [python3, t.py], ";
  CHECK(read(run + "unbuffered: true}\n").policy.train.environment.empty());
  const auto off = read(run + "unbuffered: false}\n").policy.train.environment;
  CHECK(off == std::map<std::string, std::string>{{"PYTHONUNBUFFERED", ""}});
  const auto own = read(run + "unbuffered: false, environment: {PYTHONUNBUFFERED: 1}}\n");
  CHECK(own.policy.train.environment.at("PYTHONUNBUFFERED") == "1");
  const auto both = read(run + "preload: [torch, torch.nn]}\n");
  REQUIRE(both.errors.empty());
  CHECK(both.policy.train.environment.at("STOKER_PRELOAD") == "torch,torch.nn");
  CHECK_FALSE(both.policy.train.environment.contains("STOKER_PRELOAD_CUDA"));
  const auto cuda = read(run + "preload: [torch], preload_cuda: true, preload_learned: false}\n");
  CHECK(cuda.policy.train.environment.at("STOKER_PRELOAD_CUDA") == "1");
  CHECK(cuda.policy.train.environment.at("STOKER_PRELOAD_LEARNED") == "0");
  CHECK_FALSE(both.policy.train.environment.contains("STOKER_PRELOAD_LEARNED"));
  const auto alone = errors_of(run + "preload_cuda: true}\n");
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].find("needs train.preload") != std::string::npos);
}

TEST_CASE("run_schema: preload where no interpreter is started, or no module's name -> refused") {
  const auto torchrun = errors_of("run: hello\ntrain: {command: [torchrun, t.py], preload: [x]}\n");
  REQUIRE(torchrun.size() == 1);
  CHECK(torchrun[0].find("needs a command that begins with python") != std::string::npos);
  const auto name = errors_of("run: a\ntrain: {command: [python3, t.py], preload: [\"a b\"]}\n");
  REQUIRE(name.size() == 1);
  CHECK(name[0].find("\"a b\" is no name of a Python module") != std::string::npos);
}

TEST_CASE("run_schema: rules of alerts -> read; each error with its place and what is known") {
  const std::string sinks = "alerts: {sinks: {mail: {kind: pulse}, pager: {kind: pulse}}, ";
  const auto file = read(kTrain + sinks + R"(group_wait: 30s, group_by: [run, kind],
  quiet_hours: [{from: "22:00", to: "7:00"}, {from: 00:00, to: 24:00, days: [sat, sun], zone: UTC}],
  escalate: {after: 20min, to: [pager]},
  inhibit: [{source_match: {kind: node_fault}, target_match: {kind: "hang|limbo"}, equal: [run]}],
  routes: [{to: [mail], group_wait: 2min}]})");
  REQUIRE_MESSAGE(file.errors.empty(), file.errors[0].text());
  const core::AlertRules& rules = file.policy.alerts.rules;
  CHECK(file.policy.alerts.group == core::GroupRule{{"run", "kind"}, 30s});
  CHECK(file.policy.alerts.routes.at(0).group == core::GroupRule{{"run", "kind"}, 2min});
  CHECK(rules.quiet_hours ==
        std::vector<core::QuietHours>{{22 * 60, 7 * 60, {}, false}, {0, 24 * 60, {6, 0}, true}});
  CHECK(rules.escalate ==
        std::vector<core::EscalateRule>{{20min, {"pager"}, core::Severity::Critical}});
  REQUIRE(rules.inhibit.has_value());
  CHECK(rules.inhibit->at(0).target.at("kind") == "hang|limbo");
  CHECK(read(kTrain + sinks + "inhibit: []}").policy.alerts.rules.inhibit.has_value());
  CHECK_FALSE(core::AlertRules{}.inhibit.has_value());

  CHECK(error_of(sinks + "group_wait: 2h}") ==
        "run.yaml:3:74: error: group_wait: must be between 0s and 1h");
  CHECK(error_of(sinks + "group_by: [rum]}") ==
        "run.yaml:3:72: error: group_by: no alert has a label \"rum\"; did you mean \"run\"?");
  CHECK(error_of(sinks + "quiet_hours: {from: 22h, to: \"7:00\"}}") ==
        "run.yaml:3:82: error: from: expected a time of day like 22:00, got \"22h\"");
  CHECK(error_of(sinks + "quiet_hours: {from: \"1:00\", to: \"7:00\", days: [sunday]}}")
            .ends_with("days: \"sunday\" is no day; known: sun, mon, tue, wed, thu, fri, sat"));
  CHECK(error_of(sinks + "quiet_hours: {from: \"1:00\", to: \"7:00\", zone: CET}}")
            .ends_with("zone: expected local (the daemon's) or UTC, got \"CET\""));
  CHECK(error_of(sinks + "escalate: {to: [page]}}")
            .ends_with("to: \"page\" is no sink of alerts.sinks; did you mean \"pager\"?"));
  CHECK(error_of(sinks + "escalate: {to: [pager], after: 0s}}").find("after") != std::string::npos);
  CHECK(error_of(sinks + "inhibit: [{source_match: {kind: hang}}]}")
            .ends_with("target_match: needs at least one label of what waits"));
  CHECK(error_of(sinks + "routes: [{to: [mail], match: {knd: hang}}]}")
            .ends_with("match: no alert has a label \"knd\"; did you mean \"kind\"?"));
  CHECK(error_of(sinks + "routes: [{to: [mail], match: {kind: \"hang|limbow\"}}]}")
            .ends_with("match: no alert is of the kind \"limbow\"; did you mean \"limbo\"?"));
}

TEST_CASE("run_schema: alerts.digest and budget -> read; what could not work is refused") {
  const std::string sinks = "alerts: {sinks: {mail: {kind: pulse}}, ";
  const auto file =
      read(kTrain + sinks + "digest: {day: fri, at: \"16:30\", zone: UTC, to: [mail]}}\n" +
           "scheduler: {gpus_per_node: 8}\nbudget: {gpu_hours: 2.5e5}\n");
  REQUIRE_MESSAGE(file.errors.empty(), file.errors[0].text());
  CHECK(file.policy.alerts.digest == core::DigestRule{5, 16 * 60 + 30, true, {"mail"}});
  CHECK(file.policy.budget.gpu_hours == 250000);
  CHECK(read(kTrain + sinks + "digest: {to: [mail]}}").policy.alerts.digest ==
        core::DigestRule{1, 9 * 60, false, {"mail"}});
  CHECK_FALSE(read(kTrain).policy.alerts.digest);
  CHECK(error_of(sinks + "digest: {day: monday, to: [mail]}}")
            .ends_with("day: \"monday\" is no day; known: sun, mon, tue, wed, thu, fri, sat"));
  CHECK(error_of(sinks + "digest: {at: \"24:00\", to: [mail]}}")
            .ends_with("at: a day ends before 24:00"));
  CHECK(error_of(sinks + "digest: {}}").ends_with("\"alerts.digest.to\" is missing"));
  CHECK(error_of(sinks + "digest: {to: [male]}}").ends_with("did you mean \"mail\"?"));
  CHECK(error_of("budget: {gpu_hours: 10}").find("budget.gpu_hours: GPU hours are not counted") !=
        std::string::npos);
}
