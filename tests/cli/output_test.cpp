// What the commands print, side by side: one story (tests/cli/output/story.txt, in the words of
// tests/golden) is lived by the engine, published, and read by each command. STOKER_REWRITE=1
// renews the files; the diff is then reviewed like code.
#include <fmt/format.h>
#include <re2/re2.h>
#include <sstream>

#include "core/nodes/node_view.hpp"
#include "core/publish/status.hpp"
#include "sim/transcript/script.hpp"
#include "site.hpp"

using namespace stoker;
using namespace stoker::cli::test;

namespace {

const std::string kOutput = STOKER_SOURCE_DIR "/tests/cli/output/";

// Lives the story and publishes what it came to; the run is named "demo" there.
void publish_story(const Site& site) {
  std::vector<wire::PublishedEvent> events;
  sim::Script script(
      [&](const core::JournalRow& row) { events.push_back(core::published_event(row)); });
  std::istringstream story(os::read_file(kOutput + "story.txt").value());
  for (std::string line; std::getline(story, line);) {
    if (line.empty() || line.front() == '#') continue;
    sim::Words words(line);
    REQUIRE(script.advance(words).has_value());
    REQUIRE_MESSAGE(script.run(words).has_value(), line);
  }
  const sim::World& world = script.world();
  const auto& [name, run] = *world.state().runs.begin();
  auto status = core::status_of(world.state(), run, world.state().now, world.state().wall);
  status.published = format_rfc3339(world.state().wall);
  status.directory = site.directory();
  wire::SiteDocument all;
  all.runs.push_back({name.text, site.directory(), {}});
  all.alerts = core::alerts_of(world.state(), RunName{});
  std::string nodes;
  for (const auto& node : core::nodes_of(world.state(), world.state().now))
    nodes += to_json_text(node) + "\n";
  site.write(site.state() + "/published/site.json", to_json_text(all));
  site.write(site.state() + "/published/nodes.jsonl", nodes);
  site.write(site.directory() + "/status.json", to_json_text(status));
  site.publish_events(events);
}

// Without what depends on the hour and the folder of the test.
std::string steady(const Site& site, std::string text) {
  for (std::size_t at; (at = text.find(site.folder())) != std::string::npos;)
    text.replace(at, site.folder().size(), "/site");
  RE2::GlobalReplace(&text, R"(\([^()]* ago\))", "(SOME TIME ago)");
  RE2::GlobalReplace(&text, "state [^()]* ago", "state SOME TIME ago");
  RE2::GlobalReplace(&text, ", [0-9a-z. ]+ old", ", SOME TIME old");
  RE2::GlobalReplace(&text, ", at 20[0-9T:-]+Z", ", at SOME MOMENT");
  RE2::GlobalReplace(&text, R"(\[20[0-9: -]+\])", "[TODAY]");
  return text;
}

}  // namespace

TEST_CASE("output: one story -> what each command prints, as it was reviewed") {
  const Site site;
  publish_story(site);
  const std::map<std::string, std::vector<std::string>> outputs{
      {"status", {"status", "demo"}},
      {"why", {"why", "demo", "--last", "6"}},
      {"events", {"events", "demo", "--last", "12"}},
      {"alerts", {"alerts"}},
      {"nodes", {"nodes"}},
      {"node_report", {"nodes", "--report", "n03"}},
      {"pulse", {"pulse", "demo"}},
      {"chronicle", {"chronicle", "demo"}}};
  for (const auto& [name, arguments] : outputs) {
    const Said said = site.stoker(arguments);
    const std::string text = steady(site, said.err + said.out);
    const std::string path = kOutput + name + ".txt";
    if (std::getenv("STOKER_REWRITE") != nullptr) site.write(path, text);
    CHECK_MESSAGE(os::read_file(path).value_or("(the file is missing)") == text, path);
  }
}
