// The numbers of two published trainings (BLOOM-176B = tr11, tr1-13B), as their logs show them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "recipe/batch_plan.hpp"
#include "recipe/curriculum.hpp"
#include "recipe/flops.hpp"
#include "recipe/lr_schedule.hpp"
#include "recipe/save_rounds.hpp"

using namespace stoker;
using namespace stoker::recipe;

namespace {

BatchPlan plan_of(std::uint64_t global, RampUp ramp, std::vector<MicroStep> micro = {{{}, 1}}) {
  BatchConfig config;
  config.global = global;
  config.ramp_up = ramp;
  config.micro = std::move(micro);
  return BatchPlan::make(config).value();
}

const FlopsShape kBloom{70, 14336, 4 * 14336, 2048, 250880, true, false};

}  // namespace

TEST_CASE("tflops: BLOOM's step times -> the figures of its log") {
  const auto figure = [](double seconds) {
    return fmt::format("{:.2f}", tflops(FlopsConvention::LegacyHardware, kBloom, 2048,
                                        from_seconds(seconds), 384));
  };
  CHECK(figure(105.22) == "149.02");
  CHECK(figure(106.46) == "147.29");
  CHECK(figure(111.00) == "141.26");
}

TEST_CASE("tflops: the model convention -> 72BsLh^2(1+s/12h+V/12Lh) when ffn is 4h") {
  const double L = 70, h = 14336, s = 2048, V = 250880, B = 2048;
  const double expected = 72 * B * s * L * h * h * (1 + s / (12 * h) + V / (12 * L * h));
  CHECK(step_flops(FlopsConvention::Model, kBloom, 2048) ==
        doctest::Approx(expected).epsilon(1e-12));
  FlopsShape plain = kBloom;
  plain.recompute = false;
  const double legacy = 72 * B * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h));
  CHECK(step_flops(FlopsConvention::LegacyHardware, plain, 2048) ==
        doctest::Approx(legacy).epsilon(1e-12));
}

TEST_CASE("parameters: GPT-2 small -> 124,439,808") {
  CHECK(parameter_count({12, 768, 3072, 1024, 50257, false, false}) == 124'439'808);
}

TEST_CASE("ramp: tr11 192/16/9765625 to 2048 -> the consumed samples of its log") {
  const BatchPlan plan = plan_of(2048, {192, 16, 9'765'625});
  CHECK(plan.consumed_after(Iteration(12695)) == 9'841'584);
  CHECK(plan.consumed_after(Iteration(31214)) == 47'768'496);
  const auto phases = plan.phases(220'000'000);
  CHECK(phases.back().first_iteration == 12658);
  CHECK(phases.back().consumed == 9'765'808);
  CHECK(phases.back().global == 2048);
  CHECK(plan.train_iterations(220'000'000) == 115'311);
  CHECK(plan.iteration_at(9'841'584) == Iteration(12695));
  CHECK_FALSE(plan.iteration_at(9'841'585).has_value());
  CHECK(9'841'584ull * 2048 == 20'155'564'032ull);
}

TEST_CASE("ramp: tr1 16/16/5000000 to 1024 -> its batch steps and iterations") {
  const BatchPlan plan = plan_of(1024, {16, 16, 5'000'000});
  CHECK(plan.consumed_after(Iteration(168'000)) == 153'013'584);
  const auto phases = plan.phases(300'000'000);
  CHECK(phases[0].global == 16);
  CHECK(phases[1].global == 32);
  CHECK(phases[1].first_iteration == 4961);
  CHECK(phases[1].consumed == 79'376);
  CHECK(phases[2].global == 48);
  CHECK(phases[2].first_iteration == 7441);
  CHECK(plan.train_iterations(300'000'000) == 311'541);
}

TEST_CASE("ramp: phases found by jumping -> the same as walking every iteration") {
  const BatchPlan plan = plan_of(96, {8, 8, 1003}, {{500, 1}, {{}, 2}});
  std::uint64_t consumed = 0;
  std::uint64_t iteration = 0;
  for (const BatchPhase& phase : plan.phases(5000)) {
    CHECK(phase.first_iteration == iteration);
    CHECK(phase.consumed == consumed);
    for (std::uint64_t i = 0; i < phase.iterations; ++i) {
      CHECK(plan.global_batch(consumed) == phase.global);
      CHECK(plan.micro_batch(consumed) == phase.micro);
      consumed += phase.global;
      ++iteration;
      CHECK(plan.consumed_after(Iteration(iteration)) == consumed);
    }
  }
  CHECK(consumed <= 5000);
  CHECK(consumed + plan.global_batch(consumed) > 5000);
}

TEST_CASE("lr: tr11's schedule -> the learning rates of its log") {
  const LrSchedule lr{6e-5, 6e-6, 0, 183'105, 200'000'000, 0, LrStyle::Cosine};
  const auto text = [&](std::uint64_t consumed) {
    return fmt::format("{:.3E}", lr_at(lr, consumed));
  };
  CHECK(text(9'841'584) == "5.969E-05");
  CHECK(text(47'768'496) == "5.279E-05");
  CHECK(text(71'455'664) == "4.475E-05");
  CHECK(text(76'002'224) == "4.298E-05");
  CHECK(lr_at(lr, 0) == 0);
  CHECK(lr_at(lr, 183'105) == 6e-5);
  CHECK(lr_at(lr, 200'000'001) == 6e-6);
}

TEST_CASE("lr: the other styles -> their defining points") {
  LrSchedule lr{1e-3, 1e-4, 0, 100, 1100, 0, LrStyle::Linear};
  CHECK(lr_at(lr, 600) == doctest::Approx(5.5e-4));
  lr.style = LrStyle::Constant;
  CHECK(lr_at(lr, 1'000'000) == 1e-3);
  lr.style = LrStyle::InverseSquareRoot;
  CHECK(lr_at(lr, 400) == doctest::Approx(5e-4));
  lr.style = LrStyle::WarmupStableDecay;
  lr.wsd_decay_samples = 200;
  CHECK(lr_at(lr, 900) == 1e-3);
  CHECK(lr_at(lr, 1100) == doctest::Approx(1e-4));
  CHECK(check_lr(lr).has_value());
  lr.wsd_decay_samples = 2000;
  CHECK_FALSE(check_lr(lr).has_value());
}

TEST_CASE("curriculum: fixed_linear 64..2048 over 36000 in steps of 8 -> known lengths") {
  const Curriculum c{64, 2048, 36000, 8};
  CHECK(curriculum_length(c, Iteration(1)) == 64);
  CHECK(curriculum_length(c, Iteration(1000)) == 112);
  CHECK(curriculum_length(c, Iteration(18000)) == 1056);
  CHECK(curriculum_length(c, Iteration(35999)) == 2040);
  CHECK(curriculum_length(c, Iteration(36000)) == 2048);
  CHECK(curriculum_length(c, Iteration(99999)) == 2048);
}
