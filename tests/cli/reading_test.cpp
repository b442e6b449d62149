// Reading commands on files that are long, torn or hostile.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/read/event_file.hpp"
#include "cli/read/line_file.hpp"
#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

std::string numbered(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

std::vector<wire::PublishedEvent> many_events(int count) {
  std::vector<wire::PublishedEvent> events;
  const WallTime start = *parse_rfc3339("2026-05-01T00:00:00Z");
  for (int i = 1; i <= count; ++i)
    events.push_back(event(static_cast<std::uint64_t>(i), format_rfc3339(start + i * 1min),
                           i % 100 == 0 ? "training -> recovering" : "",
                           i % 100 == 0 ? "rank 3 died" : ""));
  return events;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("line_file: a hole of gigabytes -> leapt over, and none of it is a line") {
  const Site site;
  const std::string path = site.folder() + "/log";
  site.write(path, numbered(0, 3));
  constexpr off_t kFar = off_t{8} << 30;
  const os::Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string rest = "\n" + numbered(3, 6);
  REQUIRE(::pwrite(fd.get(), rest.data(), rest.size(), kFar) == static_cast<ssize_t>(rest.size()));
  const auto file = LineFile::open(path);
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) {
    if (line.find("line") != std::string_view::npos)
      lines.emplace_back(line.substr(0, 7));
    else
      CHECK(line.size() < LineFile::kMaxLine);
    return true;
  };
  REQUIRE(file->forward(0, true, keep));
  CHECK(lines ==
        std::vector<std::string>{"line 0", "line 1", "line 2", "line 3", "line 4", "line 5"});
  lines.clear();
  REQUIRE(file->backward(keep));
  CHECK(lines == std::vector<std::string>{"line 5", "line 4", "line 3"});
  const auto at = file->partition_point([](std::string_view line) { return line < "line 4"; });
  REQUIRE(at);
  CHECK(*at >= static_cast<std::uint64_t>(kFar));
}

TEST_CASE("line_file: the last lines -> found from the end, for any form of its end") {
  const Site site;
  const std::string path = site.folder() + "/log";
  site.write(path, numbered(0, 100000));
  const auto last = [&](std::uint64_t n) {
    const auto file = LineFile::open(path);
    std::vector<std::string> lines;
    const auto end = file->forward(*file->start_of_last(n), true, [&](std::string_view l) {
      lines.emplace_back(l);
      return true;
    });
    REQUIRE(end.has_value());
    return lines;
  };
  CHECK(last(2) == std::vector<std::string>{"line 99998", "line 99999"});
  CHECK(last(50000).front() == "line 50000");
  CHECK(last(1000000).size() == 100000);
  CHECK(last(0).empty());
  site.write(path, "a\nb\nunfinished");
  CHECK(last(2) == std::vector<std::string>{"b", "unfinished"});
  site.write(path, "\n\n\n");
  CHECK(last(2) == std::vector<std::string>{"", ""});
  site.write(path, "");
  CHECK(last(3).empty());
}

TEST_CASE("line_file: backwards -> the same lines in reverse, across blocks") {
  const Site site;
  const std::string path = site.folder() + "/log";
  std::vector<std::string> expected, seen;
  std::string text;
  for (int i = 0; i < 300; ++i) {
    expected.push_back(std::to_string(i) + std::string(static_cast<std::size_t>(i * 7), 'x'));
    text += expected.back() + "\n";
  }
  site.write(path, text + "torn");
  const auto file = LineFile::open(path);
  REQUIRE(file->backward([&](std::string_view l) {
    seen.emplace_back(l);
    return true;
  }));
  std::reverse(seen.begin(), seen.end());
  CHECK(seen == expected);
}

TEST_CASE("events: -n, --since, all -> the right ones, in order") {
  const Site site;
  site.publish(training_status());
  site.publish_events(many_events(5000));
  CHECK(lines_of(site.stoker({"events", "hello", "--json"}).out) == 5000);
  const auto last = site.stoker({"events", "hello", "--json", "-n", "2"});
  CHECK(lines_of(last.out) == 2);
  CHECK(last.out.find("\"seq\":4999") != std::string::npos);
  // 5000 minutes from midnight: event 4900 is at 2026-05-04T09:40.
  const auto since = site.stoker({"events", "hello", "--json", "--since", "2026-05-04T09:40:00Z"});
  CHECK(lines_of(since.out) == 101);
  CHECK(parse_json(since.out.substr(0, since.out.find('\n')), "x")->at("seq") == 4900);
  CHECK(site.stoker({"events", "hello", "--json", "--since", "2020-01-01T00:00:00Z"}).out ==
        site.stoker({"events", "hello", "--json"}).out);
  CHECK(site.stoker({"events", "hello", "--json", "--since", "2030-01-01T00:00:00Z"}).out.empty());
}

TEST_CASE("events: torn and hostile lines -> left out and counted") {
  const Site site;
  site.publish(training_status());
  site.publish_events(many_events(3));
  std::ofstream(site.directory() + "/events.jsonl", std::ios::app)
      << "not json\n"
      << std::string(200, '[') << "\n{\"seq\": -1}\n"
      << R"({"seq": 4, "time": "x", "reason": "\u001b[31mred"})"
      << "\n{\"seq\": 5, \"ti";
  const auto said = site.stoker({"events", "hello"});
  CHECK(said.code == 0);
  CHECK(lines_of(said.out) == 5);
  CHECK(said.out.find('\033') == std::string::npos);
  CHECK(said.err.find("2 lines of ") != std::string::npos);
}

TEST_CASE("events: --follow's file -> what is appended, and a replaced file from its start") {
  const Site site;
  site.publish_events(many_events(2));
  auto file = EventFile::open(site.directory());
  REQUIRE(file.has_value());
  std::vector<std::uint64_t> seen;
  const auto take = [&](const wire::PublishedEvent& e) { seen.push_back(e.seq); };
  REQUIRE(file->read(std::nullopt, 0, take));
  std::ofstream(site.directory() + "/events.jsonl", std::ios::app)
      << to_json_text(event(3, "2026-05-01T01:00:00Z", "", "")) << "\n{\"torn";
  REQUIRE(file->follow(take));
  CHECK(seen == std::vector<std::uint64_t>{1, 2, 3});
  std::filesystem::rename(site.directory() + "/events.jsonl", site.directory() + "/old");
  site.publish_events({event(9, "2026-05-01T01:00:00Z", "", "")});
  REQUIRE(file->follow(take));
  CHECK(seen.back() == 9);
}

TEST_CASE("why: the last decisions -> with reasons, oldest first") {
  const Site site;
  site.publish(training_status());
  site.publish_events(many_events(1000));
  const auto said = site.stoker({"why", "--last", "3", "--json"});
  const auto json = parse_json(said.out, "out");
  REQUIRE(json->size() == 3);
  CHECK(json->at(0).at("seq") == 800);
  CHECK(json->at(2).at("reason") == "rank 3 died");
  CHECK(site.stoker({"why", "hello"}).out.find("because rank 3 died") != std::string::npos);
}

TEST_CASE("logs: a terabyte -> only its end is read; rank and node filter") {
  const Site site;
  site.publish(training_status());
  const std::string path = site.directory() + "/gen-000002/main.log";
  site.write(site.directory() + "/gen-000001/main.log", "[n01:0] old\n");
  site.write(path, "");
  REQUIRE(::truncate(path.c_str(), off_t{1} << 40) == 0);
  std::ofstream(path, std::ios::app) << "\n[n01:0] one\n[n02:1] \033[2Jtwo\n[n01:0] three\n";
  CHECK(site.stoker({"logs", "hello", "-n", "2"}).out == "[n02:1]  [2Jtwo\n[n01:0] three\n");
  CHECK(site.stoker({"logs", "hello", "-n", "2", "--rank", "0"}).out ==
        "[n01:0] one\n[n01:0] three\n");
  CHECK(site.stoker({"logs", "hello", "-n", "1", "--node", "n02"}).out == "[n02:1]  [2Jtwo\n");
  site.write(site.directory() + "/gen-000002/ranks/1.log", "own\n");
  CHECK(site.stoker({"logs", "hello", "--rank", "1"}).out == "own\n");
  CHECK(site.stoker({"logs", "nobody"}).code == 1);
}

TEST_CASE("nodes: the ledger -> JSON lines, hostlists for people") {
  const Site site;
  site.publish(training_status());
  site.write(site.state() + "/published/nodes.jsonl",
             "{\"node\":\"n01\",\"state\":\"ok\",\"excluded_until\":null,\"evidence\":[]}\n"
             "{\"node\":\"n02\",\"state\":\"ok\",\"excluded_until\":null,\"evidence\":[]}\n"
             "{\"node\":\"n03\",\"state\":\"excluded\",\"excluded_until\":\"2026-05-02T00:00:00Z\","
             "\"evidence\":[\"rank 3 died\"]}\n");
  const auto said = site.stoker({"nodes", "--json"});
  CHECK(lines_of(said.out) == 3);
  CHECK(said.out.find("\"excluded_until\":null") != std::string::npos);
  CHECK(site.stoker({"nodes"}).out ==
        "n03  excluded until 2026-05-02T00:00:00Z\n    rank 3 died\nn[01-02]  ok\n");
  CHECK(lines_of(site.stoker({"nodes", "hello", "--json"}).out) == 2);
}

TEST_CASE("alerts: open ones -> with the command to run") {
  const Site site;
  auto s = training_status();
  s.alerts.push_back({"hello/hang/7", "critical", "hang", "silent for 4min", "why",
                      "stoker stacks "
                      "hello",
                      "2026-05-01T03:00:00Z", false});
  site.publish(s);
  CHECK(site.stoker({"alerts"}).out.find("do  stoker stacks hello") != std::string::npos);
  const auto json = parse_json(site.stoker({"alerts", "--json"}).out, "x");
  CHECK(json->at(0).at("id") == "hello/hang/7");
  CHECK(json->at(0).at("run") == "hello");
}

TEST_CASE("alerts: 10,000 open ones -> all listed; status and top show the state and the gravest") {
  const Site site;
  auto s = training_status();
  for (int i = 0; i < 10000; ++i)
    s.alerts.push_back({fmt::format("hello/node_fault/{}", i), i == 9000 ? "critical" : "warning",
                        "node_fault", fmt::format("n{:05} has failed", i), std::string(300, 'x'),
                        "stoker nodes", "2026-05-01T03:00:00Z", false});
  site.publish(s);
  CHECK(parse_json(site.stoker({"alerts", "--json"}).out, "x")->size() == 10000);
  const std::string status = site.stoker({"status", "hello"}).out;
  CHECK(lines_of(status) < 80);
  CHECK(status.find("critical n09000 has failed") != std::string::npos);
  CHECK(status.find("and 9,980 more: stoker alerts\n") != std::string::npos);
  const std::string top = site.stoker({"top", "--once"}, {{"COLUMNS", "80"}, {"LINES", "24"}}).out;
  CHECK(lines_of(top) == 24);
  CHECK(top.find("10000 alerts") != std::string::npos);
}

TEST_CASE("alerts: of the site -> listed before those of the runs") {
  const Site site;
  wire::SiteDocument document;
  document.runs.push_back({"hello", site.directory()});
  document.alerts.push_back({"site/scheduler_blind/9", "critical", "scheduler_blind",
                             "squeue gives no good answer for 5min", "why", "stoker doctor",
                             "2026-05-01T03:00:00Z", false});
  site.write(site.directory() + "/status.json", to_json_text(training_status()));
  site.write(site.state() + "/published/site.json", to_json_text(document));
  const std::string page = site.stoker({"alerts"}).out;
  CHECK(page.find("critical  the site  squeue gives no good answer") != std::string::npos);
  CHECK(page.find("ack stoker ack site/scheduler_blind/9") != std::string::npos);
  const auto json = parse_json(site.stoker({"alerts", "--json"}).out, "x");
  REQUIRE(json->size() == 1);
  CHECK(json->at(0).at("run") == "");
}

TEST_CASE("parse: a log -> JSON lines; a missing file -> exit 1") {
  const Site site;
  site.write(site.folder() + "/log",
             " iteration       10/     100 | consumed samples:          320 | elapsed time per "
             "iteration (ms): 100.0 | learning rate: 1.000E-04 | global batch size:    32 | lm "
             "loss: 9.5E+00 |\nnoise\n");
  const auto said = site.stoker({"parse", site.folder() + "/log", "--json"});
  REQUIRE(lines_of(said.out) == 1);
  const auto json = parse_json(said.out, "x");
  CHECK(json->at("iteration") == 10);
  CHECK(json->at("loss") == doctest::Approx(9.5));
  CHECK(json->at("line") == 1);
  CHECK(site.stoker({"parse", site.folder() + "/none"}).code == 1);
}

TEST_CASE("chronicle: published events -> Markdown") {
  const Site site;
  site.publish(training_status());
  auto added = event(1, "2026-05-01T00:00:00Z", " -> queued", "put under supervision by alice");
  added.kind = "run_added";
  added.event = Json{{"kind", "run_added"}, {"policy", {{"run", "hello"}}}};
  site.publish_events({added,
                       event(2, "2026-05-01T00:01:00Z", "training -> recovering", "rank 3 died"),
                       event(3, "2026-05-01T00:02:00Z", "recovering -> training", "trains again")});
  const auto said = site.stoker({"chronicle", "hello"});
  CHECK(said.code == 0);
  CHECK(said.out.starts_with("# Chronicle of hello"));
  CHECK(said.out.find("ank 3 died") != std::string::npos);
}
