// One story, lived by the engine and published as a daemon would: for what the commands print of
// it.
#pragma once

#include <sstream>

#include "core/nodes/node_view.hpp"
#include "core/publish/status.hpp"
#include "core/publish/weekly.hpp"
#include "sim/transcript/script.hpp"
#include "site.hpp"

namespace stoker::cli::test {

inline const std::string kOutput = STOKER_SOURCE_DIR "/tests/cli/output/";

// Lives a story in the words of tests/golden and publishes what it came to; the run is named
// "demo". Lines that begin with blanks are answers. `digest`: gets what a weekly digest would say
// then.
inline void publish_story(const Site& site, const std::string& path,
                          std::string* digest = nullptr) {
  std::vector<wire::PublishedEvent> events;
  sim::Script script(
      [&](const core::JournalRow& row) { events.push_back(core::published_event(row)); });
  std::istringstream story(os::read_file(path).value());
  for (std::string line; std::getline(story, line);) {
    if (line.empty() || line.front() == '#' || line.front() == ' ') continue;
    if (line.find(' ') == std::string::npos) continue;  // a question
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
  if (digest != nullptr) *digest = core::weekly_text(world.state(), run, world.state().wall).report;
}

}  // namespace stoker::cli::test
