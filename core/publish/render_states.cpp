// Renders the two tables of transitions.hpp; nothing here knows a state by name.
#include "core/publish/render_states.hpp"

#include <fmt/format.h>

#include "core/transitions.hpp"

namespace stoker::core {
namespace {

template <class Table, class Ignored, class Names, class Causes>
std::string render(const Table& table, const Ignored& ignored, const Names& names,
                   const Causes& causes) {
  std::string out = "| from | when | to | why |\n|---|---|---|---|\n";
  for (const auto& row : table)
    out += fmt::format("| {} | {} | {} | {} |\n", names[static_cast<std::size_t>(row.from)],
                       causes[static_cast<std::size_t>(row.trigger)],
                       names[static_cast<std::size_t>(row.to)], row.why);
  out += "\nIgnored on purpose (the state stays):\n\n| in | when | why |\n|---|---|---|\n";
  for (const auto& row : ignored)
    out += fmt::format("| {} | {} | {} |\n", names[static_cast<std::size_t>(row.from)],
                       causes[static_cast<std::size_t>(row.trigger)], row.why);
  return out;
}

}  // namespace

std::string render_states() {
  return "# States\n\n"
         "Generated from `core/transitions.hpp` by `./dev docs`; do not edit. The compiler proves "
         "that every pair of a\nstate and a trigger is listed or ignored on purpose, and the "
         "decider checks every change against these tables.\n\n"
         "\"Scheduler blind\", \"rival\", \"suspended\", \"paused\", \"degraded\" and \"daemon "
         "away\" are "
         "conditions beside "
         "the states.\n\n## Training\n\n" +
         render(kTrainingTable, kTrainingIgnored, kTrainingNames, kTriggerNames) +
         "\n## Supply: each submission\n\n" +
         render(kSupplyTable, kSupplyIgnored, kSupplyNames, kSupplyTriggerNames);
}

}  // namespace stoker::core
