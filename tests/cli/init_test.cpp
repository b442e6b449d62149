// stoker init: what it finds, what it asks, what it writes; and what stoker check then says.
#include <algorithm>
#include <sstream>

#include "cli/init/detect.hpp"
#include "cli/init/python_text.hpp"
#include "cli/init/questions.hpp"
#include "configs/schema/run_schema.hpp"
#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::init;
using namespace stoker::cli::test;

namespace {

const std::map<std::string, std::string> kPath{{"PATH", "/usr/bin:/bin"}};

Host host_of(const Site& site, std::uint32_t gpus = 0) {
  return {kPath, site.folder(), false, gpus};
}

std::string value_of(const Draft& draft, const char* key) {
  const Entry* entry = draft.find(key);
  return entry == nullptr ? "-" : entry->value;
}

// "detected: #SBATCH --nodes, line 5".
std::string why(const Draft& draft, const char* key) {
  const Entry* entry = draft.find(key);
  return entry == nullptr ? "-" : std::string(name_of(entry->how)) + ": " + entry->reason;
}

core::RunPolicy policy_of(const std::string& yaml) {
  const auto file = configs::read_run_config(yaml, {});
  for (const auto& error : file.errors) MESSAGE(error.message);
  REQUIRE(file.errors.empty());
  return file.policy;
}

const char* const kBatch =
    "#!/bin/bash\n#SBATCH --job-name=llm\n#SBATCH --nodes=4 --gres=gpu:8\n#SBATCH --time=20:00:00\n"
    "#SBATCH --output=logs/%x-%j.out\n\nsrun torchrun --nproc_per_node=8 pretrain.py \\\n"
    "  --kill-switch-path /gpfs/kill --save ckpt --train-iters 500\n";

// A training as a beginner writes it.
const char* const kPython =
    "import torch\n# torch.save(x, 'no/this')\nfor i in range(9):\n"
    "  torch.save(model, f\"saves/step_{i}.pt\")\n"
    "torch.distributed.init_process_group()\n"
    "signal.signal(signal.SIGUSR1, save_now)\n";

class Asked {
 public:
  explicit Asked(std::vector<std::string> answers, bool person = false)
      : console_([](std::string_view) {}, [this](std::string_view t) { said += t; }),
        answers_(std::move(answers)),
        questions(
            console_,
            [this]() -> std::optional<std::string> {
              if (next_ == answers_.size()) return std::nullopt;
              return answers_[next_++];
            },
            person) {}

 private:
  Console console_;
  std::vector<std::string> answers_;
  std::size_t next_ = 0;

 public:
  std::string said;
  Questions questions;
};

}  // namespace

TEST_CASE("init: a batch script -> each value with the line that says it, and a file that passes") {
  const Site site;
  const std::string script = site.folder() + "/llm.slurm", file = site.folder() + "/run.yaml";
  site.write(script, kBatch);
  const auto draft = draft_of_script(host_of(site), script);
  REQUIRE(draft);
  CHECK(draft->source == "batch_script");
  CHECK(draft->launchers == std::vector<std::string>{"srun", "torchrun"});
  CHECK(value_of(*draft, "run") == "llm");
  CHECK(why(*draft, "run") == "detected: #SBATCH --job-name, line 2");
  CHECK(why(*draft, "scheduler.nodes") == "detected: #SBATCH --nodes, line 3");
  CHECK(value_of(*draft, "scheduler.gpus_per_node") == "8");
  CHECK(why(*draft, "scheduler.array").starts_with("assumed: "));
  CHECK(why(*draft, "train.kill_switch") == "detected: --kill-switch-path, line 8");
  CHECK(value_of(*draft, "checkpoints.directory") == site.folder() + "/ckpt");
  CHECK(why(*draft, "train.finished") == "detected: --train-iters, line 8");

  const auto said = site.stoker({"init", script, "-o", file, "--json"}, kPath);
  REQUIRE_MESSAGE(said.code == 0, said.err);
  const auto json = parse_json(said.out, "x");
  CHECK(json->at("file") == file);
  CHECK(json->at("entries").at(0).at("how") == "detected");
  CHECK(json->at("not_known").contains("alerts"));
  std::istringstream lines(site.read(file));
  std::string before;
  for (std::string line; std::getline(lines, line); before = line)
    if (line.find(": ") != std::string::npos && !line.starts_with("#") &&
        line.find('#') == std::string::npos)
      CHECK_MESSAGE(before.find("# ") != std::string::npos, line);  // the comment stands above it
  const auto checked = site.stoker({"check", file}, kPath);
  CHECK_MESSAGE(checked.code == 0, checked.err);
  CHECK(checked.out.find("known:\n") != std::string::npos);
  CHECK(checked.out.find("not known:\n") != std::string::npos);
}

TEST_CASE("init: a file that is there -> nothing is written without --force") {
  const Site site;
  const std::string script = site.folder() + "/train.py", file = site.folder() + "/run.yaml";
  site.write(script, kPython);
  site.write(file, "mine\n");
  const auto refused = site.stoker({"init", script, "-o", file}, kPath);
  CHECK(refused.code == 1);
  CHECK(refused.err.find("--force replaces it") != std::string::npos);
  CHECK(site.read(file) == "mine\n");
  CHECK(site.stoker({"init", script, "-o", file, "--force"}, kPath).code == 0);
  CHECK(site.read(file).starts_with("# Made by `stoker init`"));
  const auto shown = site.stoker({"init", script, "-o", "-"}, kPath);
  CHECK(shown.out.find("run: train   # assumed: after train.py\n") != std::string::npos);
}

TEST_CASE(
    "init: a Python file -> its folder, its checkpoints, its signal; what it lacks is assumed") {
  const Site site;
  const std::string script = site.folder() + "/train.py", file = site.folder() + "/run.yaml";
  site.write(script, kPython);
  const auto draft = draft_of_script(host_of(site, 4), script);
  REQUIRE(draft);
  CHECK(value_of(*draft, "train.command") ==
        "[env, \"--chdir=" + site.folder() + "\", python3, " + script + "]");
  CHECK(value_of(*draft, "checkpoints.directory") == site.folder() + "/saves");
  CHECK(why(*draft, "checkpoints.directory") == "detected: train.py line 4");
  CHECK(value_of(*draft, "train.save_signal") == "USR1");
  CHECK(value_of(*draft, "train.ranks_per_node") == "4");
  CHECK(why(*draft, "train.ranks_per_node") == "assumed: one for each GPU of this host");
  CHECK(value_of(*draft, "scheduler.kind") == "local");
  CHECK(policy_of(draft_yaml(*draft, {})).train.finished.exit_zero);
}

TEST_CASE("init: a command -> torchrun's work is the agent's, other launchers stay") {
  const Site site;
  const auto torchrun = draft_of_command(
      host_of(site), {"LR=1", "torchrun", "--nproc_per_node=2", "train.py", "--save", "out"});
  REQUIRE(torchrun);
  const auto policy = policy_of(draft_yaml(*torchrun, {}));
  CHECK(policy.train.command == std::vector<std::string>{"env", "--chdir=" + site.folder(), "LR=1",
                                                         "python3", "train.py", "--save", "out"});
  CHECK(policy.train.ranks_per_node == 2);
  CHECK(value_of(*torchrun, "checkpoints.directory") == site.folder() + "/out");
  const auto accelerate = draft_of_command(host_of(site), {"accelerate", "launch", "train.py"});
  REQUIRE(accelerate);
  CHECK(policy_of(draft_yaml(*accelerate, {})).train.command[2] == "accelerate");
  CHECK(why(*accelerate, "train.ranks_per_node") ==
        "assumed: accelerate starts its processes itself");
  CHECK_FALSE(draft_of_command(host_of(site), {"A=1"}));
}

TEST_CASE("init: hostile words -> they stay words") {
  const Site site;
  const std::vector<std::string> words{"prog", "a: b", "# c", "x\"y", "it's", "{}",
                                       "- z",  "true", "12",  "\\n",  "~",    "\xF0\x9F\x94\xA5",
                                       ""};
  const auto draft = draft_of_command(host_of(site), words);
  REQUIRE(draft);
  std::vector<std::string> wanted{"env", "--chdir=" + site.folder()};
  wanted.insert(wanted.end(), words.begin(), words.end());
  CHECK(policy_of(draft_yaml(*draft, {})).train.command == wanted);
  Draft comment = *draft;
  comment.notes.push_back("line\nrun: other");
  comment.put("scheduler.nodes", "1", How::Assumed, "a\nrun: other\r\x1b[31m");
  CHECK(policy_of(draft_yaml(comment, {{"x", "y\nrun: other"}})).run.text == "prog");
}

TEST_CASE("init: what is no script -> refused, with what to do") {
  const Site site;
  site.write(site.folder() + "/zero", std::string("#!\0", 3));
  site.write(site.folder() + "/text", "run: hello\n");
  for (const char* name : {"zero", "text", "none"})
    CHECK_FALSE(draft_of_script(host_of(site), site.folder() + "/" + name));
  const auto said = site.stoker({"init", site.folder() + "/none.slurm", "-o", "-"}, kPath);
  CHECK(said.code == 2);
  CHECK(said.err.find("no such script") != std::string::npos);
  const auto empty = site.stoker({"init", "-o", site.folder() + "/x.yaml", "--", "", "x"}, kPath);
  CHECK(empty.code == 2);
  CHECK(site.read(site.folder() + "/x.yaml").empty());
  const auto nowhere = draft_of_command(host_of(site), {"nosuchprogram"});
  REQUIRE(nowhere);
  CHECK(nowhere->notes ==
        std::vector<std::string>{"\"nosuchprogram\" is not a program of this host"});
}

TEST_CASE("init: questions -> an empty line takes the default, the end of the input too") {
  const Site site;
  site.write(site.folder() + "/train.py", kPython);
  Asked asked({"", "mine", "", "2", "", "300"});
  auto draft = ask_for_training(asked.questions, host_of(site));
  REQUIRE(draft);
  CHECK(asked.said.find("[train.py]: ") != std::string::npos);
  REQUIRE(ask_for_values(asked.questions, host_of(site), *draft));
  CHECK(value_of(*draft, "run") == "mine");
  CHECK(why(*draft, "run") == "answered: name of the run");
  CHECK(value_of(*draft, "scheduler.nodes") == "2");
  CHECK(why(*draft, "scheduler.kind").starts_with("assumed: "));
  CHECK(value_of(*draft, "train.finished") == "{iteration: 300}");
}

TEST_CASE("init: no answer and no default -> one line that says what to do") {
  const Site site;
  Asked asked({});
  const auto draft = ask_for_training(asked.questions, host_of(site));
  REQUIRE_FALSE(draft);
  CHECK(draft.error().message().find("no answer to: what starts the training") !=
        std::string::npos);
  CHECK(draft.error().message().find("stoker init train.slurm") != std::string::npos);
}

TEST_CASE("init: a wrong answer -> an error in a pipe, asked again on a terminal") {
  const Site site;
  const Questions::Judge judge = [](const std::string& a) {
    return a == "2" ? std::string() : "expected 2";
  };
  Asked piped({"x", "2"});
  CHECK_FALSE(piped.questions.ask("how many", "1", judge));
  Asked person({"x", "2"}, true);
  CHECK(person.questions.ask("how many", "1", judge).value_or("") == "2");
  CHECK(person.said.find("expected 2") != std::string::npos);
}

TEST_CASE(
    "init: a log of an earlier run -> the form of its iteration lines, or what they look like") {
  const Site site;
  Draft draft;
  const std::string good = site.folder() + "/good.log", bad = site.folder() + "/bad.log";
  site.write(good, "starting\nstep=1 loss=2.5\nstep=2 loss=2.25\n");
  site.write(bad, "round 1 of 9\nround 2 of 9\n");
  add_progress(draft, {good});
  CHECK(why(draft, "watch.progress") == "detected: pairs with =, in " + good);
  add_progress(draft, {bad});
  // Not what its lines look like: the log may be another's choice, and RUN.yaml is for others to
  // read.
  CHECK(why(draft, "watch.progress").find("(stoker parse " + bad + ")") != std::string::npos);
  CHECK(why(draft, "watch.progress").find("round") == std::string::npos);
  add_progress(draft, {site.folder() + "/none-*.log"});
  CHECK(why(draft, "watch.progress").starts_with("assumed: its iteration lines"));
}

TEST_CASE("python text: only what is said plainly") {
  const auto text = [](const char* line) { return read_python(line).checkpoints.value; };
  CHECK(text("p.add_argument(\"--output-dir\", type=str, default=\"out/a\")") == "out/a");
  CHECK(text("args = TrainingArguments(output_dir='hf', x=1)") == "hf");
  CHECK(text("torch.save(m, \"deep/er/x.pt\")") == "deep/er");
  CHECK(text("with open(f\"checkpoints/step_{at}.pt\", \"w\") as file:") == "checkpoints");
  CHECK(text("torch.save(m, f\"{folder}/x.pt\")").empty());
  CHECK(text("# output_dir='no'").empty());
  CHECK(read_python("signal.signal(signal.SIGUSR2, handler)").save_signal.value.empty());
}

TEST_CASE(
    "check: known, assumed, not known -> a value that init assumed is assumed until its mark "
    "goes") {
  const Site site;
  const std::string file = site.folder() + "/run.yaml";
  const auto lists = [&](const std::string& text) {
    site.write(file, "run: hello\ntrain: {command: [/bin/true]}\n" + text);
    const auto said = site.stoker({"check", file, "--json"}, kPath);
    REQUIRE_MESSAGE(said.code == 0, said.err);
    return *parse_json(said.out, "x");
  };
  const Json bare = lists("");
  CHECK(bare.at("assumed").contains("size"));
  CHECK(bare.at("not_known").contains("save"));
  CHECK(bare.at("not_known").contains("checkpoints"));
  CHECK(bare.at("known").at("start") == "/bin/true (train.command)");
  CHECK(lists("scheduler:\n  nodes: 2\n  time_limit: 5h\n").at("known").contains("time limit"));
  CHECK(
      lists("scheduler:\n  time_limit: 5h   # assumed: x\n").at("assumed").contains("time limit"));
  CHECK(
      lists("scheduler:\n  # assumed: x\n  time_limit: 5h\n").at("assumed").contains("time limit"));
  site.write(site.folder() + "/c/step_40.pt", "x");
  CHECK(
      lists("checkpoints: {directory: " + site.folder() + "/c}\n").at("known").at("checkpoints") ==
      site.folder() + "/c, the newest of iteration 40 (step_40.pt)");
  site.write(site.folder() + "/a.log", "step=7 loss=1\n");
  CHECK(lists("watch: {logs: [a.log]}\n").at("known").at("progress") ==
        "iteration lines (pairs with =), the last at 7, in " + site.folder() + "/a.log");
}
