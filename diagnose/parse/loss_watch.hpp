// LossWatch: what the numbers of the iteration lines themselves say: a loss that jumps or is no
// number, steps skipped for their gradients, a loss scale that falls and falls. The intuition: a
// spike is a loss far above the median of the last ones, and begins where the gradients' norm leapt
// just before it; skipped steps are normal while the loss
// scale is being found at the start, and a collapse when the scale had been steady. Pure; fed line
// by line.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "diagnose/match/finding.hpp"
#include "diagnose/parse/metrics.hpp"

namespace stoker::diagnose {

// The numbers of an iteration line that speak of its health.
struct StepNumbers {
  std::optional<std::uint64_t> iteration;
  std::optional<double> loss, loss_scale, grad_norm;
  std::optional<std::uint64_t> skipped, nan;
  friend bool operator==(const StepNumbers&, const StepNumbers&) = default;
};
inline StepNumbers step_numbers(const IterationMetrics& m) {
  return {m.iteration, m.loss, m.loss_scale, m.grad_norm, m.skipped, m.nan};
}

// The last values that make the norm. Its median is only asked for when a value stands out of all.
class LossWindow {
 public:
  static constexpr std::size_t kMost = 20;
  void clear() { size_ = 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  void add(double value);
  [[nodiscard]] double at_least() const { return at_least_; }  // no value is lower; of one or more
  // Whether the median, of one or more, is one of the values that `is` holds for; it holds for
  // every value below one that it holds for.
  template <class Is>
  bool median_is(Is is);

 private:
  std::array<double, kMost> ring_{};
  double at_least_ = 0;
  std::size_t size_ = 0, oldest_ = 0;
};

class LossWatch {
 public:
  // `text` may hold terminal sequences.
  void iteration(std::uint64_t line, std::string_view text, const StepNumbers& numbers);
  // "OVERFLOW! … Attempted loss scale: 65536, reducing to 32768".
  void overflow(std::uint64_t line, std::string_view text);
  // What was found, by class at most once; call at the end.
  [[nodiscard]] std::vector<Finding> finish() const;

 private:
  struct Place {
    std::uint64_t line = 0;
    std::string text;
  };
  struct Here {  // a Place that is not kept yet
    std::uint64_t line;
    std::string_view text;
  };
  static void keep_first(std::optional<Place>& place, const Here& here);
  void watch_spike(const Here& here, double loss);
  void watch_norm(const Here& here, double norm);
  void watch_scale(const Here& here, double scale, bool searching);
  [[nodiscard]] static Finding found(FailureClass c, Severity severity, double confidence,
                                     const Place& where, std::uint64_t count);

  LossWindow losses_, norms_;   // the last ones before now
  std::optional<Place> onset_;  // where the gradients' norm leapt, if it still stands out
  std::optional<Place> spike_, nan_, skip_, fall_;
  std::uint64_t spikes_ = 0, nans_ = 0, finite_since_nan_ = 0, skips_ = 0, iterations_ = 0;
  std::uint64_t latest_iteration_ = 0;
  std::size_t high_in_a_row_ = 0, since_leap_ = 0;
  double steady_scale_ = 0, lowest_scale_ = 0;  // of the present fall
  double last_scale_ = 0, last_norm_ = 0;
  bool mid_training_ = false;
  bool collapsed_ = false;
  bool told_skip_ = false;
};

}  // namespace stoker::diagnose
