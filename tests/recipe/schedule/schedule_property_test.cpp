// For every shape of 1 to 8 ranks, 1 to 4 chunks and 1 to 32 micro-batches.
#include <algorithm>
#include <doctest/doctest.h>
#include <functional>

#include "recipe/schedule/csv.hpp"
#include "recipe/schedule/predict.hpp"
#include "schedules.hpp"

using namespace stoker;
using namespace stoker::recipe;
using namespace stoker::recipe::test;

namespace {

struct Shape {
  std::uint32_t p, m, v;
};

std::size_t each(ScheduleKind kind,
                 const std::function<void(Shape, const PipelineSchedule&)>& see) {
  std::size_t seen = 0;
  for (std::uint32_t v = 1; v <= 4; ++v)
    for (std::uint32_t p = 1; p <= 8; ++p)
      for (std::uint32_t m = 1; m <= 32; ++m) {
        if (!check_mesh({kind, p, v, m}) || !check_micro_batches({kind, p, v, m})) continue;
        if (v != chunks_of(kind, v)) continue;
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(v);
        see({p, m, v}, made(kind, p, m, v));
        ++seen;
      }
  return seen;
}

constexpr ScheduleKind kAll[] = {ScheduleKind::GPipe, ScheduleKind::OneFOneB,
                                 ScheduleKind::Interleaved, ScheduleKind::ZbH1, ScheduleKind::ZbV};

}  // namespace

TEST_CASE("schedules: every shape -> each operation once, no deadlock with either channel") {
  for (const ScheduleKind kind : kAll) {
    CAPTURE(std::string(name_of(kind)));
    const std::size_t seen = each(kind, [](Shape shape, const PipelineSchedule& s) {
      CHECK(s.stages() == shape.p * shape.v);
      const Status valid = validate(s);
      CHECK_MESSAGE(valid.has_value(), valid.error().message());
      const auto lowered = lower(s, true);
      REQUIRE_MESSAGE(lowered.has_value(), lowered.error().message());
      const SlotPlan slots = assign_slots(*lowered);
      const Timeline run = simulate(s, {}).value();
      CHECK(slots.count == run.peak);
      CHECK(validate(s, {*std::max_element(run.peak.begin(), run.peak.end())}).has_value());
      for (std::size_t r = 0; r < s.ranks.size(); ++r) {  // compute keeps its order
        std::vector<PipelineOp> compute;
        for (const PipelineOp& op : lowered->ranks[r])
          if (is_compute(op.kind)) compute.push_back(op);
        CHECK(compute == s.ranks[r]);
      }
    });
    CHECK(seen >= 8 * 4);
  }
}

TEST_CASE(
    "1F1B on other layouts: any number of micro-batches -> valid, lowered, 1F1B's own order") {
  for (const ScheduleKind kind : {ScheduleKind::Interleaved, ScheduleKind::ZbV})
    for (std::uint32_t p = 1; p <= 6; ++p)
      for (std::uint32_t m = 1; m <= 13; ++m) {
        CAPTURE(p);
        CAPTURE(m);
        const std::uint32_t v = kind == ScheduleKind::ZbV ? 2 : 3;
        const auto layout = made(kind, p, p, v).rank_of_stage;
        const PipelineSchedule s = one_f_one_b_on(layout, m);
        CHECK(s.rank_of_stage == layout);
        const Status valid = validate(s);
        CHECK_MESSAGE(valid.has_value(), valid.error().message());
        const auto lowered = lower(s, true);
        CHECK_MESSAGE(lowered.has_value(), lowered.error().message());
      }
  for (std::uint32_t m = 1; m <= 13; ++m)  // one stage a rank: nothing but 1F1B
    CHECK(one_f_one_b_on({0, 1, 2, 3}, m).ranks == one_f_one_b(4, m).ranks);
}

TEST_CASE("schedules: every shape -> the bubble's formula") {
  const auto over = [](const PipelineSchedule& s, std::uint32_t m, OpTimes t) {
    return simulate(s, t).value().makespan - m * (t.forward + t.input + t.weight);
  };
  const OpTimes uneven{2, 3, 1, 0};
  for (const auto kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB})
    each(kind, [&](Shape x, const PipelineSchedule& s) {
      CHECK(over(s, x.m, {}) == (x.p - 1) * 3);
      CHECK(over(s, x.m, uneven) == (x.p - 1) * 6);
    });
  each(ScheduleKind::Interleaved, [&](Shape x, const PipelineSchedule& s) {
    CHECK(over(s, x.m, {}) == doctest::Approx((x.p - 1) * 3.0 / x.v));
  });
  each(ScheduleKind::ZbH1, [&](Shape x, const PipelineSchedule& s) {
    if (x.m >= x.p) CHECK(over(s, x.m, {}) == x.p - 1);
    if (x.m >= x.p) CHECK(over(s, x.m, uneven) == (x.p - 1) * 4);  // F + I - W
  });
  each(ScheduleKind::ZbV, [&](Shape x, const PipelineSchedule& s) {
    if (x.m >= 2 * x.p - 1) CHECK(over(s, x.m, {}) == doctest::Approx((x.p - 1) * 0.5));
  });
}

TEST_CASE("schedules: every shape -> predicted as it is simulated") {
  for (const ScheduleKind kind : kAll)
    each(kind, [&](Shape x, const PipelineSchedule& s) {
      for (const OpTimes times : {OpTimes{1, 1, 1, 0}, OpTimes{1, 2, 1, 0}}) {
        const StepPrediction step = predict_step({kind, x.p, x.v, x.m}, times).value();
        const Timeline run = simulate(s, times).value();
        CHECK(step.makespan == doctest::Approx(run.makespan));
        CHECK(step.bubble == doctest::Approx(run.bubble()));
        for (std::size_t r = 0; r < x.p; ++r) CHECK(step.peak[r] == run.peak_share(r));
      }
    });
}

TEST_CASE("schedules: every shape -> peaks by formula, ZB-V within 1F1B's") {
  const auto min = [](std::uint32_t a, std::uint32_t b) {
    return static_cast<double>(std::min(a, b));
  };
  each(ScheduleKind::GPipe, [&](Shape x, const PipelineSchedule& s) {
    CHECK(peaks(s) == std::vector<double>(x.p, x.m));
  });
  each(ScheduleKind::OneFOneB, [&](Shape x, const PipelineSchedule& s) {
    for (std::uint32_t r = 0; r < x.p; ++r) CHECK(peaks(s)[r] == min(x.p - r, x.m));
  });
  each(ScheduleKind::Interleaved, [&](Shape x, const PipelineSchedule& s) {
    for (std::uint32_t r = 0; r < x.p; ++r)
      CHECK(peaks(s)[r] * x.v ==
            doctest::Approx(min(x.m * x.v, x.p * (x.v - 1) + 2 * (x.p - r - 1) + 1)));
  });
  each(ScheduleKind::ZbH1, [&](Shape x, const PipelineSchedule& s) {
    for (std::uint32_t r = 0; r < x.p; ++r) CHECK(peaks(s)[r] == min(x.p, x.m));
  });
  each(ScheduleKind::ZbV, [&](Shape x, const PipelineSchedule& s) {
    for (const double peak : peaks(s))
      CHECK(peak <= peaks(made(ScheduleKind::OneFOneB, x.p, x.m))[0]);
  });
}

TEST_CASE("schedules: every shape -> the same from its own CSV") {
  for (const ScheduleKind kind : kAll)
    each(kind, [](Shape, const PipelineSchedule& s) {
      const auto again = parse_schedule_csv(render_schedule_csv(s), "s.csv");
      REQUIRE_MESSAGE(again.has_value(), again.error().message());
      CHECK(again->ranks == s.ranks);
      CHECK(again->rank_of_stage == s.rank_of_stage);
      CHECK(again->micro_batches == s.micro_batches);
    });
}
