// How long the rest takes: ramp-up, saves, tasks and failures, each of which was left out once.
#include "recipe/forecast.hpp"

#include <cmath>
#include <doctest/doctest.h>

#include "recipe/batch_plan.hpp"

using namespace stoker;
using namespace stoker::recipe;

namespace {

ForecastInput plain() {
  ForecastInput in;
  in.done = 100;
  in.total = 1100;
  in.step_s = 2;
  return in;
}

std::vector<PlannedBatch> bloom() {
  BatchConfig batch;
  batch.global = 2048;
  batch.ramp_up = RampUp{192, 16, 9'765'625};
  batch.micro = {{std::nullopt, 2}};
  return batch_steps(BatchPlan::make(batch).value(), 220'000'000);
}

}  // namespace

TEST_CASE("forecast: nothing but iterations -> their time, within a range of at least 5 %") {
  const auto f = forecast(plain());
  REQUIRE(f);
  CHECK(f->left_s == doctest::Approx(2000));
  CHECK(f->low_s == doctest::Approx(1900));
  CHECK(f->high_s == doctest::Approx(2100));
  CHECK(f->tasks == 0);
}

TEST_CASE("forecast: without an end, a speed, or in more time than there is -> none") {
  ForecastInput in = plain();
  in.total = 100;
  CHECK(!forecast(in));
  in = plain();
  in.step_s = 0;
  CHECK(!forecast(in));
  in.step_s = NAN;
  CHECK(!forecast(in));
  in.step_s = 1e300;
  CHECK(!forecast(in));
}

TEST_CASE("forecast: BLOOM's first day -> its 220 million samples, not today's small batches") {
  ForecastInput in;
  in.batches = bloom();
  CHECK(in.batches.size() <= 64);
  std::uint64_t iterations = 0;
  double samples = 0;
  for (const PlannedBatch& step : in.batches) {
    iterations += step.iterations;
    samples += step.samples * static_cast<double>(step.iterations);
  }
  CHECK(iterations == 115'311);
  CHECK(samples == doctest::Approx(220e6).epsilon(0.001));
  in.total = iterations;
  in.step_s = in.batches[0].samples / 19.5;  // samples a second
  const auto f = forecast(in);
  REQUIRE(f);
  CHECK(f->iterations_s == doctest::Approx(220e6 / 19.5).epsilon(0.01));
  CHECK(f->left_s > 8 * in.step_s * 115'311);  // what iterations alone would say
  CHECK(f->low_s < 0.7 * f->left_s);           // small batches may be slow for their size
  in.done = 60'000;                            // behind the ramp-up they are all alike
  in.step_s = 105;
  CHECK(forecast(in)->left_s == doctest::Approx(105.0 * (115'311 - 60'000)));
}

TEST_CASE("forecast: evaluations, saves, starts, queue and failures come on top") {
  ForecastInput in = plain();
  in.trained_s = 240;  // 100 iterations of 2 s, and 40 s of evaluations
  CHECK(forecast(in)->iterations_s == doctest::Approx(2400));
  in.save_share = 0.1;
  CHECK(forecast(in)->saves_s == doctest::Approx(240));
  CHECK(forecast(in)->left_s == doctest::Approx(2640));
  in.start_s = 60;
  in.queue_s = 300;
  in.task_s = 1060;      // 1000 s of work each
  in.task_left_s = 600;  // of 2640: 2040 are left for others
  auto f = *forecast(in);
  CHECK(f.tasks == 3);
  CHECK(f.waits_s == doctest::Approx(3 * 360));
  CHECK(f.left_s == doctest::Approx(2640 + 1080));
  CHECK(f.low_s == doctest::Approx(2640 + 180));    // the next task was already first in the queue
  CHECK(f.high_s == doctest::Approx(2640 + 1980));  // or waits twice as long
  in.between_failures_s = 1320;
  in.lost_s = 90;
  f = *forecast(in);
  CHECK(f.failures_s == doctest::Approx(2 * 150));
  CHECK(f.low_s == doctest::Approx(2640 + 180));
  CHECK(f.high_s > f.left_s + 300);
}

TEST_CASE("forecast: a speed that changes widens the range; a first minute says nothing yet") {
  ForecastInput in = plain();
  in.step_low_s = 1.5;
  in.step_high_s = 3;
  CHECK(forecast(in)->low_s == doctest::Approx(1500));
  CHECK(forecast(in)->left_s == doctest::Approx(2000));
  CHECK(forecast(in)->high_s == doctest::Approx(3000));
  in = plain();
  in.done = 5;
  in.trained_s = 500;
  CHECK(forecast(in)->iterations_s == doctest::Approx(2 * 1095));
  in.done = 100;
  in.trained_s = 180;  // what is called usual is a little too long
  CHECK(forecast(in)->iterations_s == doctest::Approx(1800));
  in.trained_s = 20;  // most of the iterations are another run's
  CHECK(forecast(in)->iterations_s == doctest::Approx(2000));
  in.trained_s = 1e6;  // went on from somewhere else: not everything is an evaluation
  CHECK(forecast(in)->iterations_s == doctest::Approx(2 * 2000));
}
