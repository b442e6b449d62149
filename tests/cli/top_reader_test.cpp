// What `stoker top` reads: published files that change, are damaged, or stay as they are.
#include <array>
#include <atomic>
#include <stdexcept>

#include "cli/top/background.hpp"
#include "cli/top/layout.hpp"
#include "cli/top/reader.hpp"
#include "top_view.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;
using cli::top::Page;
using cli::top::Reader;
using cli::top::Selection;

namespace {

Selection page_of_hello(Page page) {
  Selection selection;
  selection.page = page;
  selection.run = "hello";
  return selection;
}

std::string line_of(wire::AgentBody body) {
  return wire::format_event_line({1, Instant(), wall_now(), std::move(body)});
}

}  // namespace

TEST_CASE("top reader: nothing, then a run, then its change -> what is published now") {
  const Site site;
  Reader reader(site.state());
  CHECK(reader.look({}, wall_now()).runs.empty());
  CHECK(reader.look({}, wall_now()).reach == Reach::Away);
  auto status = training_status();
  site.publish(status);
  REQUIRE(reader.look({}, wall_now()).runs.size() == 1);
  CHECK(reader.look({}, wall_now()).runs[0].stale);
  status.iteration = 1234567;
  site.publish(status);
  CHECK(reader.look({}, wall_now()).runs[0].iteration == 1234567);
  CHECK(reader.look({}, wall_now()).unreadable.empty());
  site.write(site.state() + "/published/site.json", "{\"runs\": []}");
  CHECK(reader.look({}, wall_now()).runs.empty());
}

TEST_CASE("top reader: a file that did not change -> is not read again") {
  const Site site;
  auto status = training_status();
  site.publish(status);
  Reader reader(site.state());
  REQUIRE(reader.look({}, wall_now()).runs.size() == 1);
  const std::string path = site.directory() + "/status.json";
  const auto written = std::filesystem::last_write_time(path);
  std::fstream file(path, std::ios::in | std::ios::out);  // in place: the same size
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.replace(text.find("12500"), 5, "99999");
  file.clear();
  file.seekp(0);
  file << text << std::flush;
  std::filesystem::last_write_time(path, written);
  CHECK(reader.look({}, wall_now()).runs[0].iteration == 12500);
  std::filesystem::last_write_time(path, written + std::chrono::seconds(1));
  CHECK(reader.look({}, wall_now()).runs[0].iteration == 99999);
}

TEST_CASE("top reader: two copies -> the fresher one, whichever changes; a torn one is no loss") {
  const Site site;
  const std::string copy = site.state() + "/published/runs/hello";
  auto status = training_status();
  site.write(site.state() + "/published/site.json",
             to_json_text(wire::SiteDocument{1, {{"hello", site.directory(), copy}}, {}, {}}));
  const auto publish = [&](const std::string& folder, int second) {
    status.published = fmt::format("2026-05-01T04:00:{:02}Z", second);
    status.iteration = static_cast<std::uint64_t>(second);
    site.write(folder + "/status.json", to_json_text(status));
  };
  const auto iteration = [](Reader& reader) {
    const auto& view = reader.look({}, wall_now());
    REQUIRE(view.runs.size() == 1);
    return view.runs[0].iteration;
  };
  Reader reader(site.state());
  publish(site.directory(), 10);
  publish(copy, 11);
  CHECK(iteration(reader) == 11);
  publish(site.directory(), 12);
  CHECK(iteration(reader) == 12);
  publish(copy, 13);  // the run directory is full: only the copy is written
  CHECK(iteration(reader) == 13);
  site.write(site.directory() + "/status.json", "{\"run\": ");
  CHECK(iteration(reader) == 13);
}

TEST_CASE("top reader: a daemon that answers, is silent, is gone -> each said in time") {
  const Site site;
  auto status = training_status();
  status.published = format_rfc3339(wall_now());
  site.publish(status);
  Reader reader(site.state());
  {
    const FakeDaemon daemon(site.state(), [](const wire::Request&) { return reply(true, "pong"); });
    CHECK(reader.look({}, wall_now()).reach == Reach::Answered);
    CHECK_FALSE(reader.look({}, wall_now()).runs[0].stale);
  }
  CHECK(reader.look({}, wall_now()).reach == Reach::Away);
  CHECK(reader.look({}, wall_now()).runs[0].stale);
  const FakeDaemon frozen(site.state(), [](const wire::Request&) { return std::string(); });
  Reader other(site.state());
  const WallTime now = wall_now();
  CHECK(other.look({}, now).reach == Reach::Answered);  // one late answer is no banner
  CHECK(other.look({}, now + 1s).reach == Reach::Answered);
  CHECK(other.look({}, now + 2s).reach == Reach::Silent);
  CHECK(other.look({}, now + 3s).silent == 3s);
}

TEST_CASE(
    "top reader: a damaged document -> its sentence; the others are shown; later it is back") {
  const Site site;
  site.publish(training_status());
  Reader reader(site.state());
  for (const std::string& text :
       {std::string("{"), std::string("[1]"), std::string(9u << 20, ' ')}) {
    site.write(site.directory() + "/status.json", text);
    const auto& view = reader.look({}, wall_now());
    CHECK(view.runs.empty());
    REQUIRE(view.unreadable.size() == 1);
    CHECK(view.unreadable[0].find("status.json") != std::string::npos);
  }
  site.publish(training_status());
  CHECK(reader.look({}, wall_now()).runs.size() == 1);
  site.write(site.state() + "/published/site.json", "{");
  CHECK(reader.look({}, wall_now()).runs.size() == 1);  // as it was; and said
  CHECK(reader.look({}, wall_now()).unreadable.size() == 1);
}

TEST_CASE("top reader: pages of a run -> decisions, events, log, beat, as they grow") {
  const Site site;
  site.publish(training_status());
  std::vector<wire::PublishedEvent> events;
  for (std::uint64_t i = 1; i <= 400; ++i)
    events.push_back(
        event(i, "2026-05-01T03:00:00Z", i == 5 ? "a -> b" : "", i == 5 ? "since" : ""));
  site.publish_events(events);
  Reader reader(site.state());
  CHECK(reader.look({}, wall_now()).detail.run.empty());
  const auto& view = reader.look(page_of_hello(Page::Why), wall_now());
  REQUIRE(view.detail.decisions.size() == 1);
  CHECK(view.detail.decisions[0].seq == 5);
  CHECK(view.detail.events.size() == 300);
  events.push_back(event(401, "2026-05-01T03:00:01Z", "b -> c", "why"));
  site.publish_events(events);
  CHECK(reader.look(page_of_hello(Page::Events), wall_now()).detail.decisions.size() == 2);
  CHECK(view.detail.events.back().seq == 401);

  CHECK(reader.look(page_of_hello(Page::Logs), wall_now()).detail.trouble.size() == 1);
  const std::string generation = site.directory() + "/gen-000002";
  site.write(generation + "/main.log", "[n01:0] one\n[n01:0] two\n");
  CHECK(reader.look(page_of_hello(Page::Logs), wall_now()).detail.log.size() == 2);
  std::ofstream(generation + "/main.log", std::ios::app) << "[n01:0] three\n";
  CHECK(reader.look(page_of_hello(Page::Logs), wall_now()).detail.log.back() == "[n01:0] three");
  CHECK(view.detail.trouble.empty());

  CHECK_FALSE(reader.look(page_of_hello(Page::Nodes), wall_now()).detail.beat.has_value());
  wire::Beat beat;
  beat.ranks = 7;
  site.write(generation + "/lead.jsonl",
             line_of(beat) + line_of(wire::Notice{NodeName("n01"), "x"}) + "damaged\n");
  REQUIRE(reader.look(page_of_hello(Page::Nodes), wall_now() + 2s).detail.beat.has_value());
  CHECK(view.detail.beat->ranks == 7);
  CHECK(view.detail.beat_age > 1s);
  beat.ranks = 8;
  std::ofstream(generation + "/lead.jsonl", std::ios::app) << line_of(beat);
  CHECK(reader.look(page_of_hello(Page::Nodes), wall_now()).detail.beat->ranks == 8);
  site.write(site.state() + "/published/nodes.jsonl",
             "{\"node\": \"n01\", \"state\": \"suspect\"}\n");
  CHECK(reader.look(page_of_hello(Page::Nodes), wall_now()).nodes.size() == 1);
  site.write(site.state() + "/published/nodes.jsonl", "nonsense\n");
  CHECK(reader.look(page_of_hello(Page::Nodes), wall_now()).nodes.size() == 1);
  CHECK(view.detail.trouble.size() == 1);
  Selection gone;
  gone.page = Page::Why;
  gone.run = "no such run";
  CHECK(reader.look(gone, wall_now()).detail.decisions.empty());
}

TEST_CASE(
    "top reader: a look that hangs -> the view before, its age; keys go on; then the new one") {
  const auto gate = std::make_shared<std::array<os::Fd, 2>>();
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  gate->at(0).reset(ends[0]);
  gate->at(1).reset(ends[1]);
  const auto looks = std::make_shared<std::atomic<int>>(0);
  top::Background background([gate, looks](const Selection&) {
    char byte = 0;
    if (++*looks == 2) CHECK(::read(gate->at(0).get(), &byte, 1) == 1);  // hangs until it is let go
    top::View view;
    view.runs.resize(static_cast<std::size_t>(looks->load()));
    return view;
  });
  CHECK(background.look({}, kTopNow, 20s).runs.size() == 1);
  const auto& view = background.look({}, kTopNow, 10ms);
  CHECK(view.runs.size() == 1);
  CHECK(view.unread == 10ms);
  CHECK(background.look({}, kTopNow + 7s, 10ms).unread == 7010ms);
  CHECK(*looks == 2);
  top::Selection selection;
  CHECK(top::layout(view, selection, 24, 120).cells.text().find("a file system does not answer") !=
        std::string::npos);
  REQUIRE(::write(gate->at(1).get(), "x", 1) == 1);
  CHECK(background.look({}, kTopNow + 8s, 20s).runs.size() >= 2);
  CHECK(view.unread == Duration(0));
}

TEST_CASE("top reader: a look that throws -> thrown where it was asked for") {
  top::Background background(
      [](const Selection&) -> top::View { throw std::runtime_error("of a library"); });
  CHECK_THROWS_WITH(background.look({}, kTopNow, 20s), "of a library");
  CHECK_THROWS_WITH(background.look({}, kTopNow, 20s), "of a library");
}
