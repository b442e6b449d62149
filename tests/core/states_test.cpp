// The transition tables and the page that is rendered from them.
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sstream>

#include "core/publish/render_states.hpp"
#include "core/transitions.hpp"

using namespace stoker::core;

TEST_CASE("states: a change that no row lists -> not allowed") {
  CHECK(allowed(TrainingKind::Training, Trigger::Fails, TrainingKind::Recovering));
  CHECK_FALSE(allowed(TrainingKind::Training, Trigger::Fails, TrainingKind::Finished));
  CHECK_FALSE(allowed(TrainingKind::Finished, Trigger::Fails, TrainingKind::Recovering));
  CHECK(ignores(TrainingKind::Finished, Trigger::Fails));
  CHECK_FALSE(allowed(SupplyKind::Terminal, SupplyTrigger::Exhausted, SupplyKind::Terminal));
}

TEST_CASE("states: every state but the first -> reached by some row") {
  for (std::size_t kind = 1; kind < kTrainingNames.size(); ++kind) {
    bool reached = false;
    for (const auto& row : kTrainingTable)
      reached = reached || row.to == static_cast<TrainingKind>(kind);
    CHECK_MESSAGE(reached, kTrainingNames[kind]);
  }
}

TEST_CASE("states: docs/states.md -> is what the tables say now (STOKER_REWRITE=1 renews it)") {
  const std::string path = STOKER_STATES_PAGE;
  if (std::getenv("STOKER_REWRITE") != nullptr) std::ofstream(path) << render_states();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == render_states());
}
