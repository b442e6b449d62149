// The learning rate as a pure function of consumed samples (of successful steps). Source:
// Megatron-LM optimizer_param_scheduler.get_lr. The step that starts at `consumed` is made with
// lr_at(consumed); the log line printed after it shows lr_at(consumed + global batch), as Megatron
// does. To add a style: its enumerator and name here, its share in lr_schedule.cpp.
#pragma once

#include <array>
#include <cstdint>

#include "common/json.hpp"
#include "common/result.hpp"

namespace stoker::recipe {

enum class LrStyle { Constant, Linear, Cosine, InverseSquareRoot, WarmupStableDecay };

struct LrSchedule {
  double max = 0;
  double min = 0;
  double initial = 0;  // at 0 samples, when there is a warm-up
  std::uint64_t warmup_samples = 0;
  std::uint64_t decay_samples = 0;      // from here on `min`; unused by constant
  std::uint64_t wsd_decay_samples = 0;  // of warmup_stable_decay: its last stretch, exponential
  LrStyle style = LrStyle::Cosine;
};

// Errors: min > max, negative or non-finite rates, decay not longer than the warm-up.
Status check_lr(const LrSchedule& lr);
double lr_at(const LrSchedule& lr, std::uint64_t consumed);

}  // namespace stoker::recipe

namespace stoker {
template <>
struct EnumNames<recipe::LrStyle> {
  static constexpr std::array names{"constant", "linear", "cosine", "inverse_square_root",
                                    "warmup_stable_decay"};
};
}  // namespace stoker
