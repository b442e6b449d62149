// `stoker nodes --report`, how long the nodes last, what causes cost, `stoker plan --what-if`.
#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

wire::PublishedNode convicted() {
  wire::PublishedNode node;
  node.node = "n02";
  node.state = "excluded";
  node.excluded_until = "2026-05-02T00:00:10Z";
  node.evidence = {"2026-05-01T00:00:10Z xid: NVRM: Xid (PCI:0000:3b:00): 79"};
  node.score = 1;
  node.accused = 3;
  node.falsely = 1;
  node.gpus = {{"GPU-8f6e0c1a", "1564720004631", "0000:3b:00", 1}};
  node.advice = NodeAction::Reboot;
  return node;
}

wire::StatusDocument experienced() {
  wire::StatusDocument s = training_status();
  s.spares = wire::StatusSpares{50, 48, 1, 1, 0.4, 267840.0, 7, 2};
  s.saves = wire::StatusSaves{1800, 600, 40, 10800, 4};
  wire::StatusGoodput g;
  g.whole_s = 1000;
  g.ettr = 0.9;
  g.causes = {{"hang", 2, 100, 1, 8}, {"start", 0, 50, 0.5, 4}};
  g.mfu = 0.41;
  g.mfu_whole = 0.37;
  g.energy = wire::StatusEnergy{12.5, 0.7, 0.0, "model: 400 W a GPU x PUE 1.20"};
  s.goodput = g;
  return s;
}

std::string run_file(const Site& site) {
  const std::string path = site.folder() + "/hello.yaml";
  site.write(path, "run: hello\ndirectory: " + site.directory() +
                       "\nscheduler: {kind: local, nodes: 2}\ntrain: {command: [/bin/true], agent: "
                       "/bin/true}\n");
  return path;
}

}  // namespace

TEST_CASE("nodes --report: a convicted node -> a text with serial number, raw lines and times") {
  const Site site;
  site.publish(experienced());
  site.write(site.state() + "/published/nodes.jsonl", to_json_text(convicted()) + "\n");
  const Said said = site.stoker({"nodes", "--report", "n02"});
  CHECK(said.code == 0);
  for (const char* part : {"Node n02", "serial 1564720004631", "PCI 0000:3b:00", "GPU-8f6e0c1a",
                           "2026-05-01T00:00:10Z xid: NVRM: Xid (PCI:0000:3b:00): 79",
                           "until 2026-05-02T00:00:10Z", "reboot", "3 times so far, 1 of them"})
    CHECK_MESSAGE(said.out.find(part) != std::string::npos, part);
  CHECK(site.stoker({"nodes", "--report", "n77"}).code == 1);
}

TEST_CASE("nodes, status: spares, causes, MFU and energy -> shown with their numbers") {
  const Site site;
  site.publish(experienced());
  site.write(site.state() + "/published/nodes.jsonl", to_json_text(convicted()) + "\n");
  const std::string nodes = site.stoker({"nodes"}).out;
  CHECK(nodes.find(
            "hello: 50 known, 48 needed, 1 out, 1 to spare; 0.40 lost a day: out of spares in "
            "3.1 days; 7 excluded for evidence so far, 2 false positives") != std::string::npos);
  const std::string status = site.stoker({"status", "hello"}).out;
  CHECK(status.find("hang (2 x) 8.00 GPU hours, start 4.00 GPU hours") != std::string::npos);
  CHECK(status.find("41.0 % while it iterates, 37.0 % of all time") != std::string::npos);
  CHECK(status.find("12.5 kWh, 0.7 kg CO2, model: 400 W a GPU") != std::string::npos);
}

TEST_CASE("plan --what-if: what the run has shown -> intervals, failures, spares, rollback") {
  const Site site;
  site.publish(experienced());
  const Said said = site.stoker({"plan", run_file(site), "--what-if", "--json"});
  REQUIRE_MESSAGE(said.code == 0, said.err);
  const auto doc = parse_json(said.out, "what-if");
  REQUIRE(doc);
  CHECK(doc->at("inputs").at("save_cost_s") == 40);
  CHECK(doc->at("inputs").at("mtbf_s") == 10800);
  double daly = 0;
  for (const Json& row : doc->at("intervals")) {
    const double ettr = row.at("ettr").get<double>();
    if (row.at("what") == "Daly") daly = ettr;
    if (row.at("what") == "twice as long") CHECK(ettr < daly);
  }
  CHECK(doc->at("spares").size() >= 5);
  CHECK(doc->at("rollback").at("iterations_again") == 500);
  const std::string text = site.stoker({"plan", run_file(site), "--what-if", "--wait", "1h"}).out;
  for (const char* source : {"Kokolis", "Young 1974", "Daly 2006", "Poisson", "waiting 1h first"})
    CHECK_MESSAGE(text.find(source) != std::string::npos, source);
}

TEST_CASE("plan --what-if: nothing is known -> says which options to give") {
  const Site site;
  const Said said = site.stoker({"plan", run_file(site), "--what-if"});
  CHECK(said.code == 1);
  CHECK(said.err.find("--save-cost and --mtbf") != std::string::npos);
  const Said given =
      site.stoker({"plan", run_file(site), "--what-if", "--save-cost", "40s", "--mtbf", "3h"});
  CHECK(given.code == 0);
  CHECK(given.out.find("spares: cannot estimate, ") != std::string::npos);
  CHECK(given.out.find("rollback: cannot estimate, ") != std::string::npos);
}
