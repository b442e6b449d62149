// TensorBoard's event files: records of (length, masked crc32c, payload, masked crc32c), payloads
// in protobuf's wire format by hand. A new file for each start; a start that resumes says from
// which step on, so that TensorBoard drops the points that are made again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::train {

struct Scalar {
  std::string_view tag;  // "lm-loss-training/lm loss"
  double value = 0;      // written as a float
};

// The bytes, for tests and for the writer.
std::string tensorboard_record(std::string_view payload);
std::string tensorboard_version_event(double wall_seconds);
std::string tensorboard_start_event(double wall_seconds, Iteration step);
std::string tensorboard_scalar_event(double wall_seconds, Iteration step, const Scalar& scalar);

class Tensorboard {
 public:
  // Makes `folder` and a new file in it. `from` is the step at which this start begins.
  static Result<Tensorboard> open(const std::string& folder, Iteration from);
  // All scalars of one step with one write(2).
  Status add(Iteration step, const std::vector<Scalar>& scalars);

 private:
  Tensorboard(os::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status put(const std::string& bytes);

  os::Fd fd_;
  std::string path_;
};

}  // namespace stoker::train
