// Existing batch scripts, read as sbatch and a person would.
#include "slurm/adopt.hpp"

#include <algorithm>
#include <doctest/doctest.h>

#include "common/os/files.hpp"
#include "configs/schema/run_schema.hpp"
#include "slurm/script_reader.hpp"
#include "slurm/submission.hpp"

using namespace stoker;
using namespace stoker::slurm;

namespace {

// The shape of the scripts in BLOOM's chronicles (bigscience, tr1-13B and tr11-176B).
const char* const kChronicle = R"(#!/bin/bash
#SBATCH --job-name=tr11-176B-ml
#SBATCH --partition=gpu_p5
#SBATCH --constraint=a100
#SBATCH --nodes=48
#SBATCH --ntasks-per-node=1          # crucial - only 1 task per dist per node!
#SBATCH --cpus-per-task=64           # number of cores per tasks
#SBATCH --hint=nomultithread         # we get physical cores not logical
#SBATCH --gres=gpu:8                 # number of gpus
#SBATCH --time 20:00:00
#SBATCH --output=logs/%x-%j.out      # output file name
#SBATCH --account=six@a100
#SBATCH --array=1-10%1
##SBATCH --nodes=2

set -x -e
source $six_ALL_CCFRWORK/start-tr11-176B-ml
DATA_OUTPUT_PATH=$SCRATCH/checkpoints/tr11-176B-ml
LOGS_PATH=$DATA_OUTPUT_PATH/logs
KILL="$DATA_OUTPUT_PATH/kill-switch"
TRAIN_ITER=73_242_187
#SBATCH --nodes=3
export CMD=" \
    `pwd`/pretrain_gpt.py \
    --train-samples 220_000_000 \
    "
clear; srun --wait=60 bash -c "$LAUNCHER --node_rank \$SLURM_PROCID $CMD" \
    --kill-switch-path $KILL 2>&1 | tee -a $LOGS_PATH/main_log.txt
)";

AdoptedScript adopted(const std::string& text, const std::string& path = "/home/a/tr11.slurm") {
  const auto script = read_batch_script(text, path, {{"SCRATCH", "/gpfs/scratch"}});
  REQUIRE(script);
  return *script;
}

bool notes(const AdoptedScript& script, const std::string& words) {
  for (const std::string& note : script.notes)
    if (note.find(words) != std::string::npos) return true;
  return false;
}

// The words of every command, as the training would be given them; ? is unknown.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  ScriptReader({{"SCRATCH", "/scratch"}, {"EMPTY", ""}}, "/home/a")
      .read(text, [&](const ScriptCommand& command) {
        for (const ScriptWord& word : command.words) {
          words.push_back(word.text);
          std::replace(words.back().begin(), words.back().end(), kUnknown, '?');
        }
      });
  return words;
}
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("adopt: the forms in which trainings are published -> the RUN.yaml beside each") {
  const std::string folder = std::string(STOKER_SOURCE_DIR) + "/tests/slurm/scripts/";
  for (const std::string name :
       {"tr1.slurm", "tr8.slurm", "tr11.slurm", "m4.slurm", "megatron.sbatch", "nemo.sbatch",
        "torchtitan.slurm", "nanotron.slurm"}) {
    CAPTURE(name);
    const auto text = os::read_file(folder + name, 1u << 20);
    const auto wanted = os::read_file(folder + name.substr(0, name.find('.')) + ".yaml", 1u << 20);
    REQUIRE(text);
    REQUIRE(wanted);
    const auto script = read_batch_script(
        *text, "/home/a/" + name,
        {{"ALL_WORK", "/projects"}, {"ALL_SCRATCH", "/scratch"}, {"SCRATCH", "/scratch"}});
    REQUIRE(script);
    CHECK(run_yaml_of(*script) == *wanted);
    const auto file = configs::read_run_config(run_yaml_of(*script), {});
    for (const auto& error : file.errors) MESSAGE(error.message);
    CHECK(file.errors.empty());
  }
}

TEST_CASE("adopt: -M -> scheduler.cluster; of several the first, with a note") {
  const auto adopted = [](const std::string& option) {
    return *read_batch_script("#!/bin/bash\n#SBATCH -N 2\n#SBATCH " + option + "\nsrun x\n",
                              "/home/a/x.slurm", {});
  };
  for (const char* option : {"-M zay", "-Mzay", "--clusters=zay"})
    CHECK(run_yaml_of(adopted(option)).find("  cluster: \"zay\"\n") != std::string::npos);
  const auto several = adopted("--clusters=zay,jean");
  CHECK(several.cluster == "zay");
  CHECK(run_yaml_of(several).find("on one, the first") != std::string::npos);
}

TEST_CASE("script reader: values are put in where the shell would") {
  CHECK(words_of("A='x y'\nrun $A \"$A\" '$A' \\$A") == Words{"run", "x", "y", "x y", "$A", "$A"});
  CHECK(words_of("A=(--save \"$SCRATCH/a b\")\nA+=(-x)\nrun \"${A[@]}\"") ==
        Words{"run", "--save", "/scratch/a b", "-x"});
  CHECK(words_of("A=1; A+=2; run $A${B:-3}${A:+4}${EMPTY:-5}") == Words{"run", "12345"});
  CHECK(words_of("run $UNSET a$(date)b `pwd`/x $(pwd) $1 \"$@\" ${1:-y}") ==
        Words{"run", "?", "a?b", "/home/a/x", "/home/a", "y"});
  CHECK(words_of("run a#b # c 'd\n# it's\nend") == Words{"run", "a#b", "end"});
}

TEST_CASE("script reader: strings for other shells and here-documents are read as scripts") {
  CHECK(words_of("C='run --save'\nsrun bash -c \"X=/z; $C \\$X\"").front() == "run");
  CHECK(words_of("C='--save /z'\nsrun bash -c \"run $C\"")[2] == "/z");
  CHECK(words_of("C=$(cat <<'E'\nrun it's\nE\n)\nsay \"$C\"") == Words{"say", "run it's"});
  CHECK(words_of("read -r -d '' C <<E || true\n a $SCRATCH\n\\$b\nE\nrun $C") ==
        Words{"true", "run", "a", "/scratch", "$b"});
  CHECK(words_of("cat <<E > config.json\n--save /no\nE\nrun") ==
        Words{"cat", ">", "config.json", "run"});
  CHECK(words_of("srun bash <<'E'\nrun it\nE\n") == Words{"run", "it", "srun", "bash"});
  CHECK(words_of("((i = 1 << 2))\nrun\n").back() == "run");
}

TEST_CASE("script reader: what may not be run is not believed against what is known") {
  CHECK(words_of("A=1\nif x; then A=2; fi\nrun $A").back() == "?");
  CHECK(words_of("A=1\nif x; then A=\"$A 2\"; fi\nrun \"$A\"").back() == "1 2");
  CHECK(words_of("if x; then A=2; fi\nrun $A").back() == "2");
  CHECK(words_of("A=1\n[ -n x ] || A=2\nrun $A").back() == "?");
  CHECK(words_of("for i in 1 2; do run $i; done").back() == "?");
}

TEST_CASE("script reader: hostile text ends, in bounded memory") {
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 64; ++i) doubling += "A=$A$A\n";
  for (int i = 0; i < 5000; ++i) doubling += "run $A $A $A\n";
  CHECK(words_of(doubling).back() == "?");
  std::string deep = "run ";
  for (int i = 0; i < 100000; ++i) deep += "${a:-";
  CHECK(!words_of(deep).empty());
  std::string brackets = "run ";
  for (int i = 0; i < 100000; ++i) brackets += i % 2 == 0 ? "$(" : "\"`";
  CHECK(!words_of(brackets).empty());
  CHECK(!words_of("C='eval \"$C\"'\neval \"$C\"\n").empty());  // hands itself to itself
  for (const char* cut : {"run '", "run \"", "run $(", "run ${", "run `", "run \\", "run <<",
                          "run $", "A=(", "cat <<E", "run \"$(cat <<'E'"})
    (void)words_of(cut);
}

TEST_CASE("adopt: an option that only running the script would tell is a note, and left out") {
  const AdoptedScript s = adopted(
      "#!/bin/bash\nsource site.sh\nCMD=\"t.py --save $SOMEWHERE/x --kill-switch-path "
      "/k-$SLURM_JOB_ID\"\nsrun $CMD\n");
  CHECK(s.checkpoints.empty());
  CHECK(s.checkpoint_format.empty());
  CHECK(s.kill_switch.empty());
  CHECK(notes(s, "only running the script would tell it; set checkpoints.directory"));
  CHECK(notes(s, "it is another one in each job; set train.kill_switch"));
}

TEST_CASE("adopt: options that are said or stand in a comment are not the training's") {
  const AdoptedScript s =
      adopted("#!/bin/bash\necho usage: --save /echoed\n# --save /comment\nsrun python t.py\n");
  CHECK(s.checkpoints.empty());
  const AdoptedScript t = adopted(
      "#!/bin/bash\nexport MEGATRON_PARAMS=\"--save /ckpt --exit-duration-in-mins 20\"\n"
      "#SBATCH\nsrun launch.sh\n");
  CHECK(t.checkpoints == "/ckpt");  // launch.sh takes it from the environment
  CHECK(t.leaves_after == Duration(20min));
}

TEST_CASE("adopt: here-documents without an end, in one $( or in many -> the rest is read") {
  std::string inside = "echo $(\n", many = "echo ";
  for (int i = 0; i < 200'000; ++i) inside += "<<A\n", many += "$(<<A\n)";
  for (const std::string& text : {inside + ")\n", many + "\n"}) {
    const auto words = words_of(text + "python t.py --save /x\n");
    CHECK(std::find(words.begin(), words.end(), "--save") != words.end());
  }
}

TEST_CASE(
    "adopt: one text for many other shells -> read as often as 4 MiB allow, and the rest too") {
  std::string script = "X='";
  for (int i = 0; i < 20'000; ++i) script += "y\n";
  script += "'\n";
  for (int i = 0; i < 900; ++i) script += "bash -c \"$X\"\n";
  ScriptReader reader({}, "/home/me");
  std::size_t read = 0;
  bool seen = false;
  reader.read(script + "python t.py --save /x\n", [&](const ScriptCommand& command) {
    ++read;
    seen = seen || command.words.back().text == "/x";
  });
  CHECK(read > 20'000);
  CHECK(read < 3'000'000);
  CHECK(seen);
}

TEST_CASE("adopt: a script that names secrets of its reader -> their values do not come in") {
  ScriptReader reader({{"HF_TOKEN", "hf_abc"},
                       {"WANDB_KEY", "/w123"},
                       {"MYSQL_PWD", "pwabc"},
                       {"USER", "ann"},
                       {"WORK", "/data/mine"}},
                      "/home/me");
  std::string all;
  reader.read("python t.py --save /s/$HF_TOKEN-$WANDB_KEY-$MYSQL_PWD --load $WORK/$USER/x\n",
              [&](const ScriptCommand& command) {
                for (const ScriptWord& word : command.words) all += word.text + " ";
              });
  CHECK(all.find("abc") == std::string::npos);
  CHECK(all.find("w123") == std::string::npos);
  CHECK(all.find("/data/mine/ann/x") != std::string::npos);
}

TEST_CASE("adopt: a script of the chronicles -> size, chain, logs, switch file") {
  const AdoptedScript s = adopted(kChronicle);
  CHECK(s.run == "tr11-176B-ml");
  CHECK(s.nodes == 48);
  CHECK(s.ranks_per_node == 8);
  CHECK(s.array_tasks == 10);
  CHECK(s.time_limit == Duration(20h));
  CHECK(s.logs ==
        std::vector<std::string>{"/home/a/logs/tr11-176B-ml-*.out",
                                 "/gpfs/scratch/checkpoints/tr11-176B-ml/logs/main_log.txt"});
  CHECK(s.kill_switch == "/gpfs/scratch/checkpoints/tr11-176B-ml/kill-switch");
  CHECK(!s.last_iteration);
}

TEST_CASE("adopt: what is written is a configuration without errors") {
  const std::string yaml = run_yaml_of(adopted(kChronicle));
  configs::RunSchemaContext context;
  context.file = "run.yaml";
  context.config_path = "/home/a/run.yaml";
  const auto file = configs::read_run_config(yaml, context);
  for (const auto& error : file.errors) MESSAGE(error.message);
  CHECK(file.errors.empty());
  CHECK(file.policy.run.text == "tr11-176B-ml");
  CHECK(!core::has_agents(file.policy));
  CHECK(file.policy.train.batch_script == "/home/a/tr11.slurm");
  CHECK(file.policy.scheduler.array_tasks == 10);
  CHECK(file.policy.watch.logs.size() == 2);
}

TEST_CASE("adopt: hostile text in names and paths stays text") {
  const AdoptedScript s = adopted(
      "#!/bin/sh\n#SBATCH -J 'x\"; $(touch y) #' -N2\ntrain | tee \"/logs/a: [b] "
      "\\\"c\\\".txt\"\n");
  CHECK(s.run == "x-----touch-y---");
  CHECK(s.nodes == 2);
  const auto file = configs::read_run_config(run_yaml_of(s), {});
  CHECK(file.errors.empty());
  CHECK(file.policy.watch.logs.back() == "/logs/a: [b] \"c\".txt");
}

TEST_CASE("adopt: short options, blanks, flags without a value, the last one wins") {
  const Directives d = read_directives(
      "#!/bin/bash\n#SBATCH -N 4 --requeue -t 90\n#SBATCH --exclusive --mem 4G\n#SBATCH -N8\n\n"
      "echo\n#SBATCH --nodes=1\n");
  CHECK(d.at("nodes") == "8");
  CHECK(d.at("time") == "90");
  CHECK(d.at("mem") == "4G");
  CHECK(d.at("exclusive") == "");
  CHECK(d.contains("requeue"));
}

TEST_CASE("adopt: time limits as sbatch reads them") {
  CHECK(parse_time_limit("30") == Duration(30min));
  CHECK(parse_time_limit("30:10") == Duration(30min + 10s));
  CHECK(parse_time_limit("20:00:00") == Duration(20h));
  CHECK(parse_time_limit("2-12") == Duration(60h));
  CHECK(parse_time_limit("1-00:30") == Duration(24h + 30min));
  CHECK(!parse_time_limit("UNLIMITED"));
  CHECK(!parse_time_limit("1:2:3:4"));
  CHECK(!parse_time_limit(""));
}

TEST_CASE("adopt: what only running the script would tell is a note") {
  const AdoptedScript s = adopted(
      "#!/bin/bash\n#SBATCH --array=0-9 --signal=B:USR1@60 --comment=mine\nLOG=$(date).txt\n"
      "srun python t.py --train-iters 500 | tee $LOG\n");
  CHECK(s.run == "tr11.slurm");
  CHECK(s.array_tasks == 10);
  CHECK(s.last_iteration == 500);
  CHECK(s.save_signal.empty());
  CHECK(s.logs == std::vector<std::string>{"/home/a/slurm-*_*.out"});
  CHECK(notes(s, "a log path could not be derived from \"$LOG\""));
  CHECK(notes(s, "would run several tasks at once"));
  CHECK(notes(s, "--signal=B:USR1@60"));
  CHECK(notes(s, "--comment=mine is replaced"));
  CHECK(notes(s, "how many nodes"));
}

TEST_CASE("adopt: no script -> refused") {
  CHECK(!read_batch_script("", "/x", {}));
  CHECK(!read_batch_script("run: hello\n", "/x", {}));
  CHECK(!read_batch_script(std::string("#!/bin/sh\n\0", 11), "/x", {}));
}

TEST_CASE("adopt: a script is submitted as it is, from its folder") {
  core::SubmitRequest request;
  request.policy.run = RunName("tr11");
  request.policy.train.batch_script = "/home/a b/tr11.slurm";
  request.policy.train.environment["STOKER_X"] = "1";
  request.policy.scheduler.extra = {"--qos=qos_gpu-t4"};
  request.submit.token = Token("tr11-3-0badcafe");
  request.submit.exclude = {NodeName("n07")};
  const auto submission = prepare(request);
  REQUIRE(submission);
  CHECK(submission->folder == "/home/a b");
  CHECK(submission->text.empty());
  CHECK(submission->environment.at("STOKER_X") == "1");
  CHECK(submission->argv == std::vector<std::string>{"sbatch", "--parsable", "--job-name=tr11",
                                                     "--comment=tr11-3-0badcafe",
                                                     "--dependency=singleton", "--open-mode=append",
                                                     "--no-requeue", "--exclude=n07",
                                                     "--qos=qos_gpu-t4", "/home/a b/tr11.slurm"});
}
