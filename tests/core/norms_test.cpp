// Which group of layers' gradient norm rose first: on norms with noise, spikes and trends.
#include "core/signals/norms.hpp"

#include <doctest/doctest.h>

#include "core/signals/loss.hpp"

using namespace stoker;
using namespace stoker::core::signals;

namespace {

// Norms of an embedding, three layers and the final norm, 15 % of noise.
struct Layers {
  NormWatch watch;
  std::uint64_t iteration = 0, state = 88172645463325252u;

  double even() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<double>(state >> 11) / 9007199254740992.0;
  }
  std::vector<double> next(std::vector<double> factors = {1, 1, 1, 1, 1}, double trend = 1) {
    std::vector<double> norms{0.4, 0.2, 0.1, 0.3, 0.02};
    for (std::size_t i = 0; i < norms.size(); ++i)
      norms[i] *= factors[i] * trend * (0.85 + 0.3 * even());
    watch_norms(watch, norms, Iteration(++iteration));
    return norms;
  }
};

}  // namespace

TEST_CASE("norms: noise, and a slow trend over a thousand readings -> nothing rises") {
  Layers layers;
  double trend = 1;
  for (int i = 0; i < 1000; ++i) {
    layers.next({1, 1, 1, 1, 1}, trend *= 0.997);
    CHECK_FALSE(layers.watch.rise);
  }
}

TEST_CASE("norms: one layer rises, then all -> the one that was first, until all were calm again") {
  Layers layers;
  for (int i = 0; i < 40; ++i) layers.next();
  layers.next({1, 1, 6, 1, 1});
  for (int i = 0; i < 3; ++i) layers.next({90, 30, 40, 80, 100});
  REQUIRE(layers.watch.rise);
  CHECK(layers.watch.rise->group == "layer 1");
  CHECK(layers.watch.rise->iteration == Iteration(41));
  CHECK(layers.watch.rise->usual == doctest::Approx(0.1).epsilon(0.1));
  CHECK(layers.watch.rise->norm == doctest::Approx(0.6).epsilon(0.2));
  for (int i = 0; i < 7; ++i) layers.next();
  CHECK(layers.watch.rise);
  layers.next();
  CHECK_FALSE(layers.watch.rise);
}

TEST_CASE("norms: several rise in one reading -> the one that rose most against its own history") {
  Layers layers;
  for (int i = 0; i < 40; ++i) layers.next();
  layers.next({5, 4, 3, 4, 20});  // 2.0 is the largest norm, the final norm's rise is
  REQUIRE(layers.watch.rise);
  CHECK(layers.watch.rise->group == "final norm");
}

TEST_CASE("norms: a rise that stays -> usual after 200 readings; another model -> learned again") {
  Layers layers;
  for (int i = 0; i < 40; ++i) layers.next();
  for (int i = 0; i < 230; ++i) layers.next({1, 8, 1, 1, 1});
  CHECK_FALSE(layers.watch.rise);
  watch_norms(layers.watch, {1, 2, 3}, Iteration(999));
  CHECK(layers.watch.seen == 1);
  watch_norms(layers.watch, {}, Iteration(1000));
  CHECK(layers.watch.seen == 1);
}

TEST_CASE("norms: iterations that are trained again -> a rise after them is forgotten") {
  Layers layers;
  for (int i = 0; i < 40; ++i) layers.next();
  layers.next({1, 1, 9, 1, 1});
  forget_after(layers.watch, Iteration(41));
  CHECK(layers.watch.rise);
  forget_after(layers.watch, Iteration(40));
  CHECK_FALSE(layers.watch.rise);
}

TEST_CASE("norms: zeros and what is no number -> never a rise, never learned from") {
  Layers layers;
  for (int i = 0; i < 40; ++i) layers.next();
  for (int i = 0; i < 20; ++i) layers.next({1, 0, 1, 1, 1});
  CHECK_FALSE(layers.watch.rise);
  layers.next({1, 1, 1, 1, 1});
  CHECK_FALSE(layers.watch.rise);
}

TEST_CASE("norms: a layer that had no gradient at first -> its first norm is its usual") {
  Layers layers;
  for (int i = 0; i < 40; ++i) layers.next({1, 1, 1, 0, 1});
  for (int i = 0; i < 40; ++i) layers.next();
  CHECK_FALSE(layers.watch.rise);
  CHECK(layers.watch.usual[3] == doctest::Approx(0.3).epsilon(0.1));
}

TEST_CASE("loss: a spike and losses that are no numbers -> the evidence names the layer") {
  Layers layers;
  LossWatch watch;
  const auto say = [&](std::optional<double> loss, const std::vector<double>& groups) {
    LossReading r{Instant(Duration(layers.iteration)), Iteration(layers.iteration), {}, 1e-4};
    wire::add(r.steps, {r.iteration, loss, 0.6, std::nullopt, 0, loss ? 0u : 1u, groups});
    return watch_loss(watch, r);
  };
  for (int i = 0; i < 40; ++i) say(2.2 + 0.01 * layers.even(), layers.next());
  say(2.205, layers.next({1, 6, 1, 1, 1}));
  const auto spike = say(3.5, layers.next({30, 20, 30, 30, 30}));
  CHECK(spike.news == LossNews::SpikeBegan);
  REQUIRE(watch.norms.rise);
  CHECK(watch.norms.rise->group == "layer 0");
  CHECK(watch.norms.rise->iteration == Iteration(41));
  CHECK(watch.norms.rise->usual == doctest::Approx(0.2).epsilon(0.05));
  CHECK(spike.evidence.find(rise_text(watch.norms.rise) + ", learning rate") != std::string::npos);
  LossVerdict last;
  for (int i = 0; i < 3; ++i) {
    layers.next();
    last = say(std::nullopt, {});
  }
  CHECK(last.news == LossNews::NotFinite);
  CHECK(last.evidence.find("; of the gradient norms, that of layer 0 rose first") !=
        std::string::npos);
  LossWatch again = from_json<LossWatch>(Json(watch), "watch").value();
  CHECK(again == watch);
}
