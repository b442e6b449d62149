// Acting commands: the socket when it answers, the switch file when it does not.
#include <cstdio>
#include <sys/stat.h>

#include "site.hpp"
#include "wire/control.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

TEST_CASE("acting: a daemon -> the request has verb, run, reason and arguments by flag name") {
  const Site site;
  site.publish(training_status());
  std::vector<wire::Request> seen;
  {
    const FakeDaemon daemon(site.state(), [&](const wire::Request& r) {
      seen.push_back(r);
      return reply(r.verb != "restart", r.verb + " done");
    });
    CHECK(site.stoker({"save", "hello", "--at-iteration", "500"}).out == "save done\n");
    CHECK(site.stoker({"stop", "hello", "--now", "--reason", "broken"}).code == 0);
    CHECK(site.stoker({"stop", "hello", "--at", "2026-05-01T03:56:11Z"}).code == 0);
    CHECK(site.stoker({"rollback", "hello", "--to", "1200", "--lr-scale", "0.75", "--skip-samples",
                       "64", "--reason", "spike", "--dry-run"})
              .code == 0);
    CHECK(site.stoker({"exclude", "n[01-02],x", "--for", "24h", "--reason", "slow"}).code == 0);
    CHECK(site.stoker({"ack", "hello/hang/3"}).code == 0);
    CHECK(site.stoker({"silence", "kind=hang", "run=hello", "--for", "2h"}).code == 0);
    CHECK(site.stoker({"alerts", "test"}).code == 0);
    const auto refused = site.stoker({"restart", "hello", "--json"});
    CHECK(refused.code == 1);
    CHECK(parse_json(refused.out, "out")->at("message") == "restart done");
  }
  REQUIRE(seen.size() == 9);
  CHECK(seen[0].verb == "save");
  CHECK(seen[0].run == "hello");
  CHECK(seen[0].arguments == std::map<std::string, std::string>{{"at-iteration", "500"}});
  CHECK(seen[1].arguments == std::map<std::string, std::string>{{"now", "true"}});
  CHECK(seen[1].reason == "broken");
  CHECK(seen[2].arguments.at("at") == "2026-05-01T03:56:11Z");
  CHECK(seen[3].arguments == std::map<std::string, std::string>{
                                 {"to", "1200"}, {"lr-scale", "0.75"}, {"skip-samples", "64"}});
  CHECK(seen[3].dry_run);
  CHECK(seen[4].nodes == std::vector<std::string>{"n01", "n02", "x"});
  CHECK(seen[4].arguments.at("for") == "24h");
  CHECK(seen[5].arguments.at("id") == "hello/hang/3");
  CHECK(seen[6].arguments ==
        std::map<std::string, std::string>{{"for", "2h"}, {"kind", "hang"}, {"run", "hello"}});
  CHECK(seen[7].verb == "alerts-test");
}

TEST_CASE("acting: forget without --yes and without a terminal -> shown, nothing is done") {
  REQUIRE(std::freopen("/dev/null", "r", stdin) != nullptr);  // also where a person runs the tests
  const Site site;
  site.publish(training_status());
  std::vector<wire::Request> seen;
  bool good = true;
  {
    const FakeDaemon daemon(site.state(), [&](const wire::Request& r) {
      seen.push_back(r);
      return reply(good, (r.dry_run && good ? "would: " : "") + r.verb + " it");
    });
    const auto asked = site.stoker({"forget", "hello"});
    CHECK(asked.code == 1);
    CHECK(asked.err.find("would: forget it; nothing was done: --yes") != std::string::npos);
    CHECK(site.stoker({"forget", "hello", "--dry-run"}).out == "would: forget it\n");
    CHECK(site.stoker({"rename", "hello", "new", "--yes", "--reason", "x"}).out == "rename it\n");
    good = false;
    CHECK(site.stoker({"forget", "hello"}).err.find("forget it") != std::string::npos);
  }
  REQUIRE(seen.size() == 4);
  CHECK(seen[0].dry_run);
  CHECK(seen[1].dry_run);
  CHECK_FALSE(seen[2].dry_run);
  CHECK(seen[2].arguments == std::map<std::string, std::string>{{"to", "new"}});
  CHECK(seen[3].dry_run);
  CHECK(site.stoker({"forget", "hello", "--yes"}).err.find("stokerd --state") != std::string::npos);
  CHECK(std::filesystem::is_empty(site.directory() + "/switch"));
}

TEST_CASE("acting: no daemon -> the switch file, 0660, with author and reason, and said") {
  const Site site;
  site.publish(training_status());
  const mode_t before = ::umask(0077);
  for (const char* verb : {"save", "pause", "resume", "restart", "stop"}) {
    const auto said = site.stoker({verb, "hello", "--reason", "lunch"});
    CHECK(said.code == 0);
    CHECK(said.err.find("no daemon listens") != std::string::npos);
    const std::string path = site.directory() + "/switch/" + verb;
    CHECK(said.out.find(path) != std::string::npos);
    const auto body = from_json_text<wire::SwitchBody>(site.read(path), path);
    REQUIRE(body.has_value());
    CHECK(body->reason == "lunch");
    CHECK_FALSE(body->by.empty());
    struct stat s {};
    REQUIRE(::stat(path.c_str(), &s) == 0);
    CHECK((s.st_mode & 0777) == 0640);
  }
  ::umask(before);
  CHECK(site.stoker({"stop", "hello", "--now", "--reason", "x"}).code == 0);
  CHECK(os::exists(site.directory() + "/switch/kill"));
}

TEST_CASE("acting: a run directory that is not ours -> the switch file, no daemon is asked") {
  const Site site;
  site.write(site.directory() + "/status.json", to_json_text(training_status()));
  int asked = 0;
  {
    const FakeDaemon daemon(site.state(), [&](const wire::Request&) {
      ++asked;
      return reply(true, "");
    });
    CHECK(site.stoker({"save", site.directory()}).code == 0);
  }
  CHECK(asked == 0);
  CHECK(os::exists(site.directory() + "/switch/save"));
}

TEST_CASE(
    "acting: no daemon and no switch file for it -> what cannot be done and how to start one") {
  const Site site;
  site.publish(training_status());
  const std::vector<std::vector<std::string>> calls = {
      {"rollback", "hello", "--to", "5", "--reason", "x"},
      {"exclude", "n01", "--reason", "x"},
      {"save", "hello", "--at-iteration", "7"},
      {"stop", "hello", "--at", "2h", "--reason", "x"},
      {"ack", "a"},
      {"alerts", "test"}};
  for (const auto& call : calls) {
    const auto said = site.stoker(call);
    CHECK(said.code == 1);
    CHECK_MESSAGE(said.err.find("stokerd --state " + site.state()) != std::string::npos, call[0]);
  }
  CHECK(std::filesystem::is_empty(site.directory() + "/switch"));
}

TEST_CASE("acting: --dry-run without a daemon -> names the file, writes none") {
  const Site site;
  site.publish(training_status());
  const auto said = site.stoker({"stop", "hello", "--reason", "x", "--dry-run"});
  CHECK(said.code == 0);
  CHECK(said.out.find("would write") != std::string::npos);
  CHECK(std::filesystem::is_empty(site.directory() + "/switch"));
}

TEST_CASE("acting: a destructive verb without --reason -> remarked on") {
  const Site site;
  site.publish(training_status());
  CHECK(site.stoker({"stop", "hello"}).err.find("no --reason") != std::string::npos);
  for (const char* verb : {"stop", "restart", "pause"}) {
    const auto said = site.stoker({verb, "hello", "--json"});
    CHECK(said.code == 0);
    CHECK(said.err.find("no --reason was given") != std::string::npos);
    const auto body = os::read_file(site.directory() + "/switch/" + verb);
    REQUIRE(body);
    CHECK(parse_json(*body, "body")->at("reason") == "no reason given");
  }
  CHECK(site.stoker({"save", "hello"}).err.find("no --reason") == std::string::npos);
  CHECK(site.stoker({"stop", "hello", "--dry-run"}).err.find("no --reason") == std::string::npos);
}

TEST_CASE("acting: bad arguments -> exit 2, nothing asked") {
  const Site site;
  site.publish(training_status());
  const std::vector<std::vector<std::string>> calls = {
      {"save"},
      {"save", "hello", "--at-iteration", "soon"},
      {"stop", "hello", "--now", "--after-checkpoint"},
      {"stop", "hello", "--at", "noon"},
      {"rollback", "hello"},
      {"rollback", "hello", "--to", "5", "--lr-scale", "-1"},
      {"exclude", "n[1-", "--reason", "x"},
      {"exclude", "n1", "--for", "long", "--reason", "x"},
      {"silence", "hang"},
      {"silence", "kind=hang", "--for", "0s"},
      {"events", "hello", "--since", "noon"},
      {"completion", "tcsh"},
      {"status", "--colour", "x"}};
  for (const auto& call : calls) {
    const auto said = site.stoker(call);
    CHECK_MESSAGE(said.code == 2, call[0]);
    CHECK(std::count(said.err.begin(), said.err.end(), '\n') == 1);
  }
}

TEST_CASE("acting: run without a daemon -> exit 1 with the command that starts one") {
  const Site site;
  site.write(site.folder() + "/hello.yaml", "run: hello\ntrain: {command: [/bin/true]}\n");
  const auto said = site.stoker({"run", site.folder() + "/hello.yaml"});
  CHECK(said.code == 1);
  CHECK(said.err.find("stokerd --state " + site.state()) != std::string::npos);
  const auto dry = site.stoker({"run", site.folder() + "/hello.yaml", "--dry-run"});
  CHECK(dry.code == 0);
  CHECK(dry.out.find("/bin/true") != std::string::npos);
  site.write(site.folder() + "/bad.yaml", "run: hello\ntrain: {command: [/nope/x]}\n");
  CHECK(site.stoker({"run", site.folder() + "/bad.yaml"}).code == 2);
}

TEST_CASE("acting: run of a known name with a changed configuration -> shown, wants --yes") {
  const Site site;
  site.publish(training_status());
  site.write(site.folder() + "/hello.yaml", "run: hello\ndirectory: " + site.directory() +
                                                "\nscheduler: {nodes: 3}\n"
                                                "train: {command: [/bin/true]}\n");
  auto added = event(1, "2026-05-01T03:00:00Z", "", "");
  added.kind = "run_added";
  added.event =
      Json{{"kind", "run_added"},
           {"policy", {{"scheduler", {{"nodes", {{{"nodes", 2}, {"until_samples", 0}}}}}}}}};
  site.publish_events({added});
  int submitted = 0;
  {
    const FakeDaemon daemon(site.state(), [&](const wire::Request& r) {
      if (r.verb == "run") {
        ++submitted;
        CHECK(r.text.find("nodes: 3") != std::string::npos);
        CHECK(r.arguments.at("path") == site.folder() + "/hello.yaml");
      }
      return reply(true, "taken up");
    });
    const auto asked = site.stoker({"run", site.folder() + "/hello.yaml"});
    CHECK(asked.code == 1);
    CHECK(asked.err.find("scheduler.nodes.0.nodes: 2 -> 3") != std::string::npos);
    CHECK(submitted == 0);
    CHECK(site.stoker({"run", site.folder() + "/hello.yaml", "--yes"}).out == "taken up\n");
  }
  CHECK(submitted == 1);
}
