// The command tree: help with examples, completions and the reference name every command.
#include <algorithm>
#include <set>
#include <sstream>

#include "cli/completion.hpp"
#include "cli/doctor/site_checks.hpp"
#include "cli/reference.hpp"
#include "common/os/state_directory.hpp"
#include "configs/schema/describe.hpp"
#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

TEST_CASE("tree: the verbs of the contract -> all there") {
  for (const char* verb :
       {"check",     "plan",      "run",     "status", "pulse",    "why",    "events",
        "chronicle", "logs",      "save",    "stop",   "pause",    "resume", "restart",
        "rollback",  "exclude",   "include", "nodes",  "bisect",   "stacks", "alerts",
        "ack",       "silence",   "parse",   "doctor", "diagnose", "replay", "tail",
        "top",       "self-test", "forget",  "rename", "init"}) {
    bool found = false;
    for (const Command& command : commands()) found = found || command.name == verb;
    CHECK_MESSAGE(found, verb);
  }
}

TEST_CASE("tree: --help of every command -> exit 0, an example that calls the command") {
  const Site site;
  for (const Command& command : commands()) {
    const auto said = site.stoker({command.name, "--help"});
    CHECK(said.code == 0);
    REQUIRE_FALSE(command.examples.empty());
    for (const std::string& example : command.examples) {
      CHECK_MESSAGE(example.find("stoker " + command.name) != std::string::npos, example);
      CHECK_MESSAGE(said.out.find(example) != std::string::npos, command.name);
    }
  }
  CHECK(site.stoker({"--help"}).out.find("chronicle") != std::string::npos);
  CHECK(site.stoker({"--version"}).out.starts_with("stoker "));
}

TEST_CASE("tree: completions -> every verb and its options in every shell") {
  const Site site;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto said = site.stoker({"completion", shell});
    CHECK(said.code == 0);
    for (const Command& command : commands())
      if (!command.hidden) CHECK_MESSAGE(said.out.find(command.name) != std::string::npos, shell);
    CHECK(said.out.find("effective") != std::string::npos);
    CHECK(said.out.find("after-checkpoint") != std::string::npos);
    // bash expands $(...) in the words that it offers: a published name is a run's, or not offered.
    CHECK(said.out.find(R"("run":"[A-Za-z0-9._-]*")") != std::string::npos);
  }
}

TEST_CASE("tree: the reference -> every command with its options") {
  const std::string page = render_cli_reference();
  for (const Command& command : commands())
    CHECK((page.find("## stoker " + command.name + "\n") != std::string::npos) == !command.hidden);
  CHECK(page.find("| `--to ITERATION` | iteration of the checkpoint; auto: where "
                  "recover.rollback would go back to") != std::string::npos);
}

TEST_CASE(
    "tree: the manual pages -> one for each command, no text that troff takes for a request") {
  const auto pages = render_man_pages();
  for (const Command& command : commands()) {
    const auto found = std::find_if(pages.begin(), pages.end(), [&](const auto& page) {
      return page.first == "stoker-" + command.name + ".1";
    });
    CHECK((found != pages.end()) == !command.hidden);
  }
  for (const char* name : {"stoker.1", "stoker-run.5", "stoker-train.5"})
    CHECK_MESSAGE(
        std::count_if(pages.begin(), pages.end(), [&](auto& p) { return p.first == name; }) == 1,
        name);
  const std::set<std::string> requests{".TH", ".SH", ".SS", ".TP", ".B", ".BR", ".nf", ".fi"};
  for (const auto& page : pages) {
    CAPTURE(page.first);
    CHECK(page.second.starts_with(".TH STOKER"));
    std::istringstream lines(page.second);
    for (std::string line; std::getline(lines, line);) {
      CHECK_FALSE(line.starts_with("'"));
      if (line.starts_with(".")) CHECK(requests.count(line.substr(0, line.find(' '))) == 1);
    }
  }
}

TEST_CASE("tree: the manual pages of RUN.yaml and TRAIN.yaml -> every key with its meaning") {
  for (const auto& page : render_man_pages()) {
    const std::string &name = page.first, &text = page.second;
    if (!name.ends_with(".5")) continue;
    CAPTURE(name);
    const bool run = name == "stoker-run.5";
    const auto keys = run ? configs::run_schema_keys() : configs::train_schema_keys();
    CHECK(keys.size() > 20);
    for (const auto& key : keys)
      CHECK_MESSAGE(text.find(".TP\n.B " + key.key + "\n(") == std::string::npos, key.key);
    CHECK(text.find('`') == std::string::npos);
    CHECK(text.find(run ? ".SS recover\n" : ".SS optimizer\n") != std::string::npos);
    CHECK(text.find(".SS \n") == std::string::npos);
    CHECK(text.find(run ? "(path; default: \\fB<state>/runs/<run>\\fR)" : "default: 4 x hidden)") !=
          std::string::npos);
  }
}

TEST_CASE("tree: unknown commands and options -> exit 2, the nearest name") {
  const Site site;
  CHECK(site.stoker({"sttus"}).err.find("did you mean \"status\"?") != std::string::npos);
  CHECK(site.stoker({"sttus"}).code == 2);
  const auto option = site.stoker({"status", "--jsn"});
  CHECK(option.err.find("unknown option --jsn; did you mean --json?") != std::string::npos);
  CHECK(option.code == 2);
  CHECK(site.stoker({"status", "a", "b"}).err.find("unexpected argument \"b\"") !=
        std::string::npos);
  CHECK(site.stoker({"events", "x", "--zzzzzzz"}).err.find("did you mean") == std::string::npos);
}

TEST_CASE("tree: help, version and a bare stoker -> what --help and --version print, exit 0") {
  const Site site;
  const auto help = site.stoker({"--help"});
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"help"}}) {
    const auto said = site.stoker(words);
    CHECK(said.code == 0);
    CHECK(said.out == help.out);
  }
  CHECK(site.stoker({"help", "status"}).out == site.stoker({"status", "--help"}).out);
  CHECK(site.stoker({"version"}).out == site.stoker({"--version"}).out);
  CHECK(site.stoker({"help", "sttus"}).err.find("did you mean \"status\"?") != std::string::npos);
}

TEST_CASE("tree: --json and an error -> one JSON object on standard output, the line as well") {
  const Site site;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"why", "nosuchrun", "--json"},
        {"events", "nosuchrun", "--json"},
        {"status", "--json", "--nope"}}) {
    const auto said = site.stoker(words);
    CHECK(said.code != 0);
    const auto json = parse_json(said.out, "out");
    REQUIRE(json.has_value());
    CHECK(json->at("exit") == said.code);
    CHECK(json->at("error").get<std::string>() + "\n" == said.err);
  }
}

TEST_CASE("tree: --state before or after the command, else the environment") {
  const Site site;
  site.publish(training_status());
  const std::map<std::string, std::string> other{{"STOKER_STATE", "/nowhere"}};
  CHECK(site.stoker({"--state", site.state(), "status", "hello", "--json"}, other).code == 0);
  CHECK(site.stoker({"status", "hello", "--json", "--state", site.state()}, other).code == 0);
  CHECK(site.stoker({"status", "hello", "--json"}, other).code == 1);
}

TEST_CASE("tree: the state directory by the environment; empty is not set, no HOME: the user's") {
  CHECK(os::default_state({{"XDG_STATE_HOME", "/x"}, {"HOME", "/h"}}) == "/x/stoker");
  CHECK(os::default_state({{"HOME", "/h"}}) == "/h/.local/state/stoker");
  CHECK(os::default_state({{"STOKER_STATE", "/s"}, {"HOME", "/h"}}) == "/s");
  CHECK(os::default_state({{"STOKER_STATE", ""}, {"HOME", "/h"}}) == "/h/.local/state/stoker");
  CHECK(os::default_state({}) != "/.local/state/stoker");
}

TEST_CASE("tree: check -> exit 0, 2 and JSON") {
  const Site site;
  const std::string good = site.folder() + "/good.yaml", bad = site.folder() + "/bad.yaml";
  site.write(good, "run: hello\ntrain: {command: [/bin/true]}\n");
  site.write(bad, "run: hello\ntrain: {command: [/bin/true]}\nscheduler: {nods: 2}\n");
  CHECK(site.stoker({"check", good}).code == 0);
  CHECK(site.stoker({"check", good, "--effective"}).out.find("# default") != std::string::npos);
  const auto said = site.stoker({"check", bad, "--json"});
  CHECK(said.code == 2);
  CHECK(said.err == bad + ":3:13: error: unknown key \"nods\"; did you mean \"nodes\"?\n");
  CHECK(parse_json(said.out, "x")->at("errors").at(0).at("line") == 3);
  CHECK(site.stoker({"check", site.folder() + "/none.yaml"}).code == 2);
}

TEST_CASE("tree: check of a script without an agent -> what works and what does not") {
  const Site site;
  site.write(site.folder() + "/tr1.slurm", "#!/bin/bash\nsrun train\n");
  const auto said = [&](const std::string& train, const std::string& more = "") {
    const std::string path = site.folder() + "/run.yaml";
    site.write(path, "run: hello\ntrain: {batch_script: tr1.slurm" + train +
                         "}\nwatch: {logs: [/x.log]}\nscheduler: {kind: slurm, array: {tasks: 1, "
                         "top_up_below: 0}}\n" +
                         more);
    const auto answer = site.stoker({"check", path});
    CHECK(answer.code == 0);
    return answer.out;
  };
  const std::string bare = said("");
  CHECK(bare.find("no: it needs train.save_signal or train.kill_switch") != std::string::npos);
  CHECK(bare.find("no: it needs checkpoints.format") != std::string::npos);
  CHECK(said(", save_signal: USR1").find("by USR1 to the processes") != std::string::npos);
  CHECK(said(", kill_switch: /k").find("only by saving and leaving") != std::string::npos);
  CHECK(said("", "checkpoints: {format: megatron, directory: /c}\n")
            .find("sets /c/latest_checkpointed_iteration.txt") != std::string::npos);
  const auto json =
      parse_json(site.stoker({"check", site.folder() + "/run.yaml", "--json"}).out, "x");
  CHECK(json->at("without_agent").contains("limbo"));
}

TEST_CASE("doctor: this machine -> every question answered, JSON, a fix for what is not good") {
  const Site site;
  const auto said = site.stoker({"doctor", "--json"}, {{"PATH", "/usr/bin:/bin"}});
  const auto json = parse_json(said.out, "x");
  REQUIRE(json.has_value());
  CHECK(json->at("findings").size() == 14);
  CHECK((said.code == 0) == json->at("ok").get<bool>());
  for (const Json& finding : json->at("findings"))
    if (finding.at("level") == "bad") CHECK_FALSE(finding.at("fix").get<std::string>().empty());
}

TEST_CASE("doctor: versions of SQLite -> judged by the WAL-reset fix") {
  CHECK(check_sqlite("3.51.3").health == Health::Good);
  CHECK(check_sqlite("4.0").health == Health::Good);
  CHECK(check_sqlite("3.40.1").health == Health::Note);
  CHECK(check_sqlite("3.30.0").health == Health::Bad);
}

TEST_CASE("console: text from outside -> nothing that a terminal obeys") {
  CHECK(printable("a\033[1mb\x07\n") == "a [1mb  ");
  CHECK(printable("gr\xC3\xBC\xC3\x9F") == "gr\xC3\xBC\xC3\x9F");
  CHECK(printable("\xC2\x9B"
                  "31m") == "?31m");
  CHECK(printable("\xFF\xC3") == "??");
  // Bidirectional controls and line separators: what is shown must be what is written.
  for (const char* control :
       {"\u202A", "\u202E", "\u2066", "\u2069", "\u200E", "\u200F", "\u061C", "\u2028", "\u2029"})
    CHECK(printable("a" + std::string(control) + "b") == "a?b");
  CHECK(printable("\u2026\u2070\u0627") == "\u2026\u2070\u0627");
  CHECK(printable("a\u200Db\u200Bc") == "a?b?c");
  CHECK(printable_lines("a\nb\r\n") == "a\nb \n");
}
