// How long the nodes last.
#include "core/nodes/spares.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace stoker;
using namespace stoker::core;

namespace {

const Instant kStart = Instant{} + 1h;

NodeLedger site(std::uint32_t nodes) {
  NodeLedger ledger;
  ledger.at_least = nodes;
  ledger.since = kStart;
  return ledger;
}

void down(NodeLedger& ledger, int n, Instant at) {
  ledger.nodes[NodeName(fmt::format("n{}", n))].usable = false;
  note_loss(ledger, at);
}

}  // namespace

TEST_CASE("spares: no node was lost, or one -> no forecast") {
  NodeLedger ledger = site(50);
  CHECK(!forecast_spares(ledger, 48, 24h, kStart + 48h).out_in);
  down(ledger, 1, kStart + 24h);
  const auto one = forecast_spares(ledger, 48, 24h, kStart + 48h);
  CHECK(!one.out_in);
  CHECK(one.free == 1);
}

TEST_CASE("spares: one lost every two days, each for a month, five to spare -> ten days") {
  NodeLedger ledger = site(55);
  down(ledger, 1, kStart + 24h);
  down(ledger, 2, kStart + 48h);
  const auto f = forecast_spares(ledger, 48, 30 * 24h, kStart + 96h);
  CHECK(f.lost_per_day == doctest::Approx(0.5));
  CHECK(f.free == 5);
  REQUIRE(f.out_in);
  CHECK(to_seconds(*f.out_in) / 86400 == doctest::Approx(10).epsilon(0.01));
  CHECK(spares_text(to_seconds(*f.out_in)) == "out of spares in 10.0 days");
}

TEST_CASE("spares: they come back as fast as they go -> they last") {
  NodeLedger ledger = site(55);
  for (int i = 0; i < 8; ++i) note_loss(ledger, kStart + i * 12h);
  CHECK(!forecast_spares(ledger, 48, 24h, kStart + 96h).out_in);
}

TEST_CASE("spares: fewer than needed already -> now") {
  NodeLedger ledger = site(48);
  down(ledger, 1, kStart + 1h);
  const auto f = forecast_spares(ledger, 48, 24h, kStart + 2h);
  REQUIRE(f.out_in);
  CHECK(*f.out_in == Duration{});
  CHECK(spares_text(0.0) == "out of spares");
}
