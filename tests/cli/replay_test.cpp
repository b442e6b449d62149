// stoker replay: what the detectors of today would have found in logs of captured runs, and when.
#include <fmt/format.h>
#include <iostream>

#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

std::string corpus() {
  const char* told = std::getenv("STOKER_CORPUS");
  return told != nullptr ? told : std::string(STOKER_SOURCE_DIR) + "/../shared/corpus";
}

// Text of the corpus; "" and a word about it when it is not there.
std::string captured(const std::string& name) {
  auto text = os::read_file(corpus() + "/" + name);
  if (text) return *text;
  std::cout << "SKIPPED: no " << corpus() << "/" << name << "\n";
  return "";
}

Json replayed(const Site& site, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "replay");
  arguments.emplace_back("--json");
  const auto said = site.stoker(arguments);
  REQUIRE_MESSAGE(said.code == 0, said.err);
  const auto json = parse_json(said.out, "replay");
  REQUIRE(json);
  return *json;
}

std::string config(const Site& site) {
  const std::string path = site.folder() + "/run.yaml";
  site.write(
      path, "run: hello\ndirectory: " + site.directory() +
                "\ntrain: {command: [/bin/true], agent: /bin/true}\n"
                "hang: {floor: 60s, ceiling: 10min, phases: {startup: 20min, evaluation: 5min}}\n");
  return path;
}

// Megatron's lines, an iteration a minute, with a launcher's stamp.
std::string iterations(int from, int to, int minute) {
  std::string text;
  for (int i = from; i <= to; ++i, ++minute)
    text += fmt::format(
        "[2026-05-01 {:02}:{:02}:00]  iteration {:8}/    1000 | consumed samples: {} | elapsed "
        "time "
        "per iteration (ms): 60000.0 | lm loss: 2.5E+00 | loss scale: 1.0 |\n",
        10 + minute / 60, minute % 60, i, i * 8);
  return text;
}

std::int64_t seconds(const Json& time) {
  return parse_rfc3339(time.get<std::string>())->time_since_epoch() / std::chrono::seconds(1);
}

}  // namespace

TEST_CASE("replay: whole logs of runs that went well -> no alarm") {
  const Site site;
  for (const char* name : {"mlperf31_gpt3_1344x8xH100.log", "mlperf41_bert_434nodes.log",
                           "mlperf41_llama2_512nodes.log"}) {
    if (captured(std::string("healthy_large/") + name).empty()) continue;
    const auto json = replayed(site, {corpus() + "/healthy_large/" + name});
    CHECK_MESSAGE(json.at("detections").empty(), name << ": " << json.at("detections").dump());
    CHECK(json.at("clock") == "log");
    CHECK(json.at("saved_h") == 0.0);
  }
}

TEST_CASE("replay: an evaluation that hangs -> found within its deadline, with the hours saved") {
  const Site site;
  std::string text = captured("healthy_large/mlperf41_llama2_512nodes.log");
  if (text.empty()) return;
  // The run as it was until its third evaluation began; then nothing until the job's time limit.
  std::size_t at = 0;
  for (int n = 0; n < 3; ++n) at = text.find("\"key\": \"eval_start\"", at + 1);
  REQUIRE(at != std::string::npos);
  text.resize(text.find('\n', at) + 1);
  const auto stamp = text.rfind("\"time_ms\": ") + 11;
  const std::int64_t began = std::stoll(text.substr(stamp, 13)) / 1000;
  const auto end = WallTime(std::chrono::seconds(began)) + 3h;
  text += fmt::format(
      "slurmstepd: error: *** JOB 1999616 ON r6i4n5 CANCELLED AT {} DUE TO TIME LIMIT ***\n",
      format_rfc3339(end).substr(0, 19));
  site.write(site.folder() + "/main.log", text);
  const auto json = replayed(site, {site.folder() + "/main.log", "--config", config(site)});
  REQUIRE(json.at("detections").size() >= 1);
  const auto& hang = json.at("detections").at(0);
  CHECK(hang.at("kind") == "hang");
  CHECK(hang.at("evidence").get<std::string>().find("in phase evaluation (limit 5min, reached") !=
        std::string::npos);
  CHECK(seconds(hang.at("time")) - began <= 5 * 60 + 30);
  CHECK(hang.at("acted") == true);
  CHECK(hang.at("log") == "ended");
  CHECK(hang.at("saved_h").get<double>() == doctest::Approx(2.9).epsilon(0.02));
  CHECK(json.at("false_alarms") == 0);
}

TEST_CASE("replay: silence that a person ended hours later -> hours saved, then training again") {
  const Site site;
  site.write(site.folder() + "/main.log",
             iterations(1, 30, 0) + "[2026-05-01 14:00:00] loading checkpoint from /ckpt\n" +
                 iterations(21, 40, 4 * 60 + 10));
  const auto json = replayed(site, {site.folder() + "/main.log", "--config", config(site)});
  REQUIRE(json.at("detections").size() == 1);
  const auto& hang = json.at("detections").at(0);
  CHECK(hang.at("kind") == "hang");
  CHECK(hang.at("log") == "restarted");
  CHECK(hang.at("until") == "2026-05-01T14:10:00Z");
  CHECK(hang.at("saved_h").get<double>() > 3.5);
  const auto page = site.stoker({"replay", site.folder() + "/main.log", "--config", config(site)});
  CHECK(page.out.find("training again only at 2026-05-01T14:10:00Z") != std::string::npos);
  CHECK(page.out.find("1 detected, 1 acted on, 0 false alarms") != std::string::npos);
  CHECK(page.out.find("taken as UTC") != std::string::npos);
}

TEST_CASE("replay: a pause that the training survives -> a false alarm, no hours") {
  const Site site;
  site.write(site.folder() + "/main.log", iterations(1, 30, 0) + iterations(31, 40, 120));
  const auto json = replayed(site, {site.folder() + "/main.log", "--config", config(site)});
  REQUIRE(json.at("detections").size() == 1);
  CHECK(json.at("detections").at(0).at("log") == "went_on");
  CHECK(json.at("false_alarms") == 1);
  CHECK(json.at("saved_h") == 0.0);
}

TEST_CASE("replay: a failure named by the log, an Xid in the kernel's -> its node, what was done") {
  const Site site;
  site.write(site.folder() + "/main.log",
             iterations(1, 30, 0) +
                 "[2026-05-01 10:30:00] [rank3]: torch.AcceleratorError: CUDA error: unspecified "
                 "launch failure\n" +
                 "[2026-05-01 18:00:00] loading checkpoint from /ckpt\n" + iterations(21, 25, 490));
  site.write(
      site.folder() + "/dmesg-n04.txt",
      "[Fri May  1 10:29:58 2026] NVRM: Xid (PCI:0000:cb:00): 79, pid=1, name=python, GPU has "
      "fallen off the bus.\n");
  const auto json = replayed(site, {site.folder() + "/main.log", "--kernel-log",
                                    site.folder() + "/dmesg-n04.txt", "--config", config(site)});
  REQUIRE(json.at("detections").size() >= 1);
  bool node_named = false, acted = false;
  for (const auto& d : json.at("detections")) {
    node_named =
        node_named || (d.at("evidence").get<std::string>().find("n04") != std::string::npos &&
                       d.at("kind") == "node_fault");
    acted = acted || (d.at("acted") == true && d.at("log") == "restarted");
  }
  CHECK_MESSAGE(node_named, json.dump(1));
  CHECK_MESSAGE(acted, json.dump(1));
  CHECK(json.at("saved_h").get<double>() > 6.0);
}

TEST_CASE("replay: two generations in two files, a gap between them -> no silence of a training") {
  const Site site;
  site.write(site.folder() + "/b.log", iterations(31, 60, 300));
  site.write(site.folder() + "/a.log", iterations(1, 30, 0));
  const auto json = replayed(site, {site.folder() + "/b.log", site.folder() + "/a.log"});
  CHECK_MESSAGE(json.at("detections").empty(), json.dump(1));
  CHECK(json.at("iterations") == 60);
  CHECK(json.at("files") == 2);
}

TEST_CASE("replay: a clock that jumps back, no times at all -> said, and nothing found in it") {
  const Site site;
  site.write(site.folder() + "/main.log", iterations(31, 60, 120) + iterations(61, 90, 0));
  const auto back = replayed(site, {site.folder() + "/main.log"});
  CHECK_MESSAGE(back.at("detections").empty(), back.dump(1));
  CHECK(back.at("notes").dump().find("jumps back") != std::string::npos);
  site.write(site.folder() + "/none.log",
             " iteration 1/ 10 | elapsed time per iteration (ms): 1000.0 | lm loss: 2.0 |\n"
             " iteration 2/ 10 | elapsed time per iteration (ms): 1000.0 | lm loss: 2.0 |\n");
  const auto none = replayed(site, {site.folder() + "/none.log"});
  CHECK(none.at("clock") == "iterations");
  CHECK(none.at("iterations") == 2);
}

TEST_CASE("replay: iterations in front of the first time -> it is the end of them") {
  const Site site;
  std::string text;
  for (int i = 2; i <= 4; ++i)
    text += fmt::format(
        " iteration {:8}/    1000 | elapsed time per iteration (ms): 120000.0 | lm loss: 4.0 |\n",
        i);
  text +=
      "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2021-05-27T21:42:11 DUE TO TIME LIMIT "
      "***\n";
  site.write(site.folder() + "/main.log", text);
  const auto json = replayed(site, {site.folder() + "/main.log"});
  CHECK(json.at("to") == "2021-05-27T21:42:11Z");
  CHECK(json.at("from") == "2021-05-27T21:38:11Z");
  CHECK(json.at("notes").dump().find("default limits") != std::string::npos);
}

TEST_CASE("replay: what it cannot do -> one line, exit 2 or 1") {
  const Site site;
  site.write(site.folder() + "/main.log", iterations(1, 2, 0));
  const auto code = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "replay");
    const auto said = site.stoker(arguments);
    CHECK(std::count(said.err.begin(), said.err.end(), '\n') == 1);
    return said.code;
  };
  const std::string log = site.folder() + "/main.log";
  CHECK(code({"-"}) == 2);
  CHECK(code({log, "--zone", "east"}) == 2);
  CHECK(code({log, "--until", "soon"}) == 2);
  CHECK(code({log, "--config", site.folder() + "/gone.yaml"}) == 2);
  CHECK(code({site.folder() + "/gone.log"}) == 1);
  site.write(site.folder() + "/empty.log", "");
  CHECK(code({site.folder() + "/empty.log"}) == 1);
}

TEST_CASE("replay: a log without dates -> counted from its own beginning, no year") {
  const Site site;
  std::string undated = iterations(1, 30, 0);
  for (std::size_t at; (at = undated.find('[')) != std::string::npos;)
    undated.erase(at, undated.find(']', at) + 3 - at);
  site.write(site.folder() + "/main.log", undated);
  const auto page = site.stoker({"replay", site.folder() + "/main.log", "--config", config(site)});
  CHECK(page.code == 0);
  CHECK(page.out.find("30 iterations, undated, ") != std::string::npos);
  CHECK(page.out.find("1970") == std::string::npos);
}
