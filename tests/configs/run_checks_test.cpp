// What the machine says about a RUN.yaml, on folders made for the test; the shipped examples hold.
#include "configs/schema/run_checks.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include "configs/schema/describe.hpp"
#include "recipe/numerics.hpp"

using namespace stoker;
using namespace stoker::configs;

namespace {

namespace fs = std::filesystem;

struct Folder {
  std::string path, agent = "/bin/true";
  Folder() {
    char name[] = "/tmp/stoker-configs-XXXXXX";
    path = ::mkdtemp(name);
    fs::create_directories(path + "/bin");
    write("bin/stoker-train", "#!/bin/sh\n");
    ::chmod((path + "/bin/stoker-train").c_str(), 0755);
    write("train.yaml", train("{start: 8, increment: 8, samples: 64}"));
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  static std::string train(const std::string& ramp, const std::string& numerics = "native") {
    return "model: {layers: 1, hidden: 8, heads: 1, sequence: 8, vocabulary: 257}\n"
           "data: {train: [{prefix: text}]}\n"
           "batch: {micro: 2, global: 32, ramp_up: " +
           ramp +
           "}\n"
           "train: {samples: 1000, numerics: " +
           numerics +
           "}\n"
           "lr: {max: 1.0e-3, decay_samples: 1000}\n"
           "checkpoint: {directory: saves}\n";
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name) << text;
  }
  [[nodiscard]] CheckedRun check(const std::string& text) const {
    RunSchemaContext context;
    context.file = "run.yaml";
    context.config_path = path + "/run.yaml";
    context.state_directory = path + "/state";
    RunWorld world;
    world.environment = {{"PATH", path + "/bin:/usr/bin:/bin"}};
    world.agent = agent;
    world.regex_error = [](const std::string& e) {
      return e == "(" ? std::string("missing )") : std::string();
    };
    return check_run_config(text, context, world);
  }
  [[nodiscard]] std::string error(const std::string& text) const {
    const auto run = check(text);
    REQUIRE(run.file.errors.size() == 1);
    return run.file.errors[0].text();
  }
};

std::string run_yaml(const std::string& more, const std::string& train = "ranks_per_node: 2") {
  return "run: a\ntrain: {command: [stoker-train, --config, train.yaml], " + train + "}\n" + more;
}

}  // namespace

TEST_CASE("run_checks: stoker-train with a TRAIN.yaml -> made absolute, legal counts filled in") {
  const Folder folder;
  const auto run = folder.check(run_yaml("scheduler: {nodes: 2}\n"));
  for (const auto& e : run.file.errors) MESSAGE(e.text());
  REQUIRE(run.file.errors.empty());
  CHECK(run.train_path == folder.path + "/train.yaml");
  CHECK(run.file.policy.train.command ==
        std::vector<std::string>{"stoker-train", "--config", folder.path + "/train.yaml"});
  CHECK(run.file.policy.scheduler.nodes_allowed == std::vector<std::uint32_t>{1, 2});
  CHECK(run.file.policy.checkpoints.directory == "saves");
  const auto joined =
      folder.check("run: a\ntrain: {command: [stoker-train, --config=train.yaml]}\n");
  CHECK(joined.train.has_value());
}

TEST_CASE("run_checks: a batch that does not fit -> the first bad step and the legal node counts") {
  const Folder folder;
  const std::string text = folder.error(run_yaml("scheduler: {nodes: 3}\n"));
  CHECK(text.starts_with(folder.path + "/train.yaml:3:40: error: batch: "));
  CHECK(text.find("8") != std::string::npos);
  CHECK(text.find("1, 2") != std::string::npos);
  // Legal at first, not after the step to three nodes.
  const std::string later =
      folder.error(run_yaml("scheduler: {nodes: [{until_samples: 100, nodes: 2}, {nodes: 3}]}\n"));
  CHECK(later.find("with 3 nodes from 100 samples on") != std::string::npos);
  CHECK(folder.error(run_yaml("scheduler: {nodes: 2, nodes_allowed: [2, 3]}\n"))
            .starts_with("run.yaml:3:42: error: scheduler.nodes_allowed.[1]: "));
}

TEST_CASE("run_checks: portable numerics -> pinned in the environment, a contradiction is said") {
  const Folder folder;
  const std::string core = "environment: {OPENBLAS_CORETYPE: ";
  CHECK(folder.check(run_yaml("")).file.policy.train.environment.empty());
  folder.write("train.yaml", Folder::train("{start: 8, increment: 8, samples: 64}", "portable"));
  const auto run = folder.check(run_yaml("", core + "Haswell}"));
  CHECK(run.file.errors.empty());
  CHECK(run.file.policy.train.environment == recipe::portable_environment());
  CHECK(
      folder.error(run_yaml("", core + "Zen}"))
          .starts_with("run.yaml:2:89: error: train.environment.OPENBLAS_CORETYPE: is \"Zen\", but "
                       "train.numerics: portable of "));
}

TEST_CASE("run_checks: errors of TRAIN.yaml -> reported with its own name and position") {
  const Folder folder;
  folder.write("train.yaml", "modl: {}\n");
  const auto run = folder.check(run_yaml(""));
  REQUIRE(run.file.errors.size() > 1);
  CHECK(run.file.errors[0].text().starts_with(folder.path + "/train.yaml:1:1: error: "));
  CHECK(folder.error("run: a\ntrain: {command: [stoker-train, --config, no.yaml]}\n")
            .starts_with("run.yaml:2:19: error: train.command: " + folder.path + "/no.yaml: "));
}

TEST_CASE("run_checks: slurmrestd's token -> there, and private; systemd's is not read") {
  const Folder folder;
  const auto text = [](const std::string& token) {
    return run_yaml("scheduler: {kind: slurm, rest: {url: 'https://slurm', token_file: " + token +
                    "}}\n");
  };
  const std::string missing = folder.error(text("token"));
  CHECK(missing.find("scheduler.rest.token_file") != std::string::npos);
  CHECK_MESSAGE(missing.find("cannot read the secret") != std::string::npos, missing);
  folder.write("token", "SLURM_JWT=a.b.c\n");
  ::chmod((folder.path + "/token").c_str(), 0644);
  CHECK(folder.error(text("token")).find("has mode 0644") != std::string::npos);
  ::chmod((folder.path + "/token").c_str(), 0600);
  CHECK(folder.check(text("token")).file.errors.empty());
  CHECK(folder.check(text("credential:slurm")).file.errors.empty());
}

TEST_CASE("run_checks: a command that does not exist -> said at its place") {
  const Folder folder;
  CHECK(folder.error("run: a\ntrain: {command: [/nope/prog, x]}\n") ==
        "run.yaml:2:19: error: train.command.[0]: the command \"/nope/prog\" does not exist");
  CHECK(folder.error("run: a\ntrain:\n  command: [prog-that-is-nowhere]\n") ==
        "run.yaml:3:13: error: train.command.[0]: the command \"prog-that-is-nowhere\" is nowhere "
        "in PATH");
  folder.write("plain", "x");
  CHECK(folder.error("run: a\ntrain: {command: [./plain]}\n").find("is no program; chmod +x") !=
        std::string::npos);
  folder.write("script", "#! /no/such/python3 -u\nprint(1)\n");
  ::chmod((folder.path + "/script").c_str(), 0755);
  CHECK(folder.error("run: a\ntrain: {command: [./script]}\n")
            .find("script for \"/no/such/python3\", which does not exist") != std::string::npos);
  // Compute nodes, and a set-up script, may have other programs.
  CHECK(folder.check("run: a\nscheduler: {kind: slurm}\ntrain: {command: [nowhere-here]}\n")
            .file.errors.empty());
}

TEST_CASE("run_checks: an agent that cannot be started -> said before a task burns on it") {
  Folder folder;
  const std::string head = "run: a\ntrain: {command: [/bin/true]";
  CHECK(folder.error(head + ", agent: ./no}\n") ==
        "run.yaml:2:38: error: train.agent: the agent \"" + folder.path + "/no\" does not exist");
  folder.write("plain", "x");
  CHECK(folder.error(head + ", agent: ./plain}\n").find("chmod +x") != std::string::npos);
  CHECK(folder.error(head + ", agent: no-such-agent}\n").find("nowhere in PATH") !=
        std::string::npos);
  CHECK(folder.check(head + ", agent: /not-here/sw/agent}\nscheduler: {kind: slurm}\n")
            .file.errors.empty());
  CHECK(folder.error(head + ", agent: ./plain}\nscheduler: {kind: slurm}\n").find("chmod +x") !=
        std::string::npos);
  folder.agent = folder.path + "/stoker-agent";
  const std::string told = folder.error(head + "}\n");
  CHECK(told.find(folder.agent + "\" does not exist; install all programs") != std::string::npos);
}

TEST_CASE("run_checks: a batch script -> read, on SLURM, with logs to follow, without an agent") {
  Folder f;
  f.agent = "/nowhere/stoker-agent";  // has no use here
  f.write("x.slurm", "#!/bin/bash\n");
  f.write("y.slurm", "echo\n");
  const std::string good = "scheduler: {kind: slurm}\nwatch: {logs: [x.log]}\nrun: a\n";
  CHECK(f.check(good + "train: {batch_script: x.slurm}\n").file.errors.empty());
  const auto bad = f.check("run: a\nscheduler: {spares: 1}\ntrain: {batch_script: no.slurm}\n");
  CHECK(bad.file.errors.size() == 4);
  for (const char* words : {"cannot read", "needs scheduler.kind: slurm", "needs watch.logs",
                            "no use beside train.batch_script"})
    CHECK_MESSAGE(
        std::any_of(bad.file.errors.begin(), bad.file.errors.end(),
                    [&](const auto& e) { return e.message.find(words) != e.message.npos; }),
        words);
  const auto drains =
      f.check("run: a\nrecover: {exclude: {drain: true}}\ntrain: {command: [/bin/true]}\n");
  CHECK(std::any_of(drains.file.errors.begin(), drains.file.errors.end(), [](const auto& e) {
    return e.message.find("recover.exclude.drain") != e.message.npos;
  }));
  const auto none = f.check(good + "train: {batch_script: y.slurm}\n");
  REQUIRE(none.file.errors.size() == 1);
  CHECK(none.file.errors[0].message.find("no batch script") != std::string::npos);
}

TEST_CASE("run_checks: a directory that cannot be written -> said with the reason") {
  const Folder folder;
  folder.write("file", "x");
  CHECK(folder.error("run: a\ndirectory: file/run\ntrain: {command: [/bin/true]}\n")
            .starts_with("run.yaml:2:12: error: directory: cannot make \"" + folder.path));
  CHECK(folder.error("run: a\ndirectory: file\ntrain: {command: [/bin/true]}\n")
            .find("is no directory") != std::string::npos);
  CHECK(folder.error("run: a\ndirectory: /proc/run\ntrain: {command: [/bin/true]}\n")
            .find("cannot write \"/proc/run\"") != std::string::npos);
  CHECK(why_not_writable(folder.path + "/x/y/z").empty());
}

TEST_CASE("run_checks: files, groups and expressions that do not hold -> said at their key") {
  const Folder folder;
  const std::string head = "run: a\ntrain: {command: [/bin/true], ";
  CHECK(folder.error(head + "setup: no.sh}\n")
            .starts_with("run.yaml:2:38: error: train.setup: cannot read"));
  CHECK(folder
            .error("run: a\ngroup: no-such-group-here\ndirectory: /tmp/a\n"
                   "train: {command: [/bin/true]}\n")
            .starts_with("run.yaml:2:8: error: group: there is no group"));
  const auto bad = folder.check(head + "}\nwatch: {progress: {iteration: '('}}\n");
  REQUIRE(bad.file.errors.size() == 1);
  CHECK(bad.file.errors[0].text() == "run.yaml:3:31: error: watch.progress.iteration: missing )");
}

TEST_CASE("run_checks: the schema's errors and the machine's -> all at once") {
  const Folder folder;
  const auto run = folder.check(
      "run: a\ndirectory: /proc/run\nscheduler: {nods: 2}\n"
      "train: {command: [/nope/prog]}\n");
  REQUIRE(run.file.errors.size() == 3);
  CHECK(run.file.errors[0].at.line == 2);
  CHECK(run.file.errors[1].at.line == 3);
  CHECK(run.file.errors[2].at.line == 4);
}

TEST_CASE("run_checks: the shipped examples -> no errors") {
  const Folder folder;
  const std::string source = STOKER_SOURCE_DIR;
  for (const char* name : {"hello.yaml", "full.yaml"}) {
    RunSchemaContext context;
    context.state_directory = folder.path + "/state";
    context.sinks = {{"pulse", {}, {"path"}}, {"webhook", {}, {"url"}}};
    RunWorld world;
    world.environment = {{"PATH", folder.path + "/bin"}};
    world.agent = folder.agent;  // no program of ours need be built
    const auto run = load_run_config(source + "/configs/examples/" + name, context, world);
    REQUIRE(run.has_value());
    for (const auto& e : run->file.errors) MESSAGE(e.text());
    CHECK(run->file.errors.empty());
    CHECK(run->train.has_value());
  }
}

TEST_CASE("run_checks: the shipped meshes -> no errors") {
  const Folder folder;
  for (const char* name : {"tr1", "tr8", "tr11"}) {
    const std::string path =
        std::string(STOKER_SOURCE_DIR) + "/configs/examples/" + name + "/run.yaml";
    RunSchemaContext context;
    context.state_directory = folder.path + "/state";
    RunWorld world;
    world.environment = {{"PATH", folder.path + "/bin"}};
    world.agent = folder.agent;  // no program of ours need be built
    const auto planned = load_run_config(path, context, world);
    REQUIRE(planned.has_value());
    for (const auto& e : planned->file.errors) FAIL_CHECK(e.text());
    REQUIRE(planned->train.has_value());
  }
}

TEST_CASE("describe: every key of the schemas -> has a meaning, and every meaning a key") {
  const auto compare = [](const std::vector<SchemaKey>& keys,
                          const std::vector<KeyMeaning>& meanings) {
    for (const SchemaKey& key : keys) {
      bool found = false;
      for (const KeyMeaning& m : meanings) found = found || key.key == m.key;
      CHECK_MESSAGE(found, (std::string("no meaning for ") + key.key));
    }
    for (const KeyMeaning& m : meanings) {
      bool found = false;
      for (const SchemaKey& key : keys) found = found || key.key == m.key;
      CHECK_MESSAGE(found, (std::string("no key ") + m.key));
    }
  };
  compare(run_schema_keys(), run_key_meanings());
  compare(train_schema_keys(), train_key_meanings());
  const std::string page = render_configuration();
  CHECK(page.find("| `hang.floor` | `1min` | duration |") != std::string::npos);
  CHECK(page.find("| `run` | required | name |") != std::string::npos);
}
