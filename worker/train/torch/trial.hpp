// Trial: whether the passes of a micro-batch are worth recording (Operators::record). The first
// pairs of a forward and a backward pass go as they are, some of them by the clock; then they are
// recorded, and timed again. What does not win enough is given up.
#pragma once

#include <algorithm>
#include <limits>

namespace stoker::train {

class Trial {
 public:
  static constexpr unsigned kWarm = 2, kTimed = 3;
  static constexpr double kWorth = 0.97;  // of the time without

  [[nodiscard]] bool recorded() const { return !given_up_ && pairs_ >= kRecorded; }
  // The next pair's time counts: its end must be waited for.
  [[nodiscard]] bool timed() const {
    return !given_up_ &&
           ((pairs_ >= kWarm && pairs_ < kRecorded) || (pairs_ > kRecorded && pairs_ < kDecided));
  }
  [[nodiscard]] bool given_up() const { return given_up_; }
  // The verdict is there: recorded() stays as it is.
  [[nodiscard]] bool decided() const { return given_up_ || pairs_ == kDecided; }
  [[nodiscard]] double seconds_with() const { return with_; }
  [[nodiscard]] double seconds_without() const { return without_; }

  // After a pair; `seconds` is read where it was timed.
  void done(double seconds) {
    if (timed()) {
      double& best = recorded() ? with_ : without_;
      best = std::min(best, seconds);
    }
    pairs_ = std::min(pairs_ + 1, kDecided);
    if (pairs_ == kDecided && with_ > kWorth * without_) given_up_ = true;
  }
  // It cannot be recorded.
  void give_up() { given_up_ = true; }

 private:
  static constexpr unsigned kRecorded = kWarm + kTimed;         // the first pair of recordings
  static constexpr unsigned kDecided = kRecorded + 1 + kTimed;  // making them is not timed
  unsigned pairs_ = 0;
  double without_ = std::numeric_limits<double>::infinity();
  double with_ = std::numeric_limits<double>::infinity();
  bool given_up_ = false;
};

}  // namespace stoker::train
