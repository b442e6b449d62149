// TensorBoard's bytes against records taken from its own writer's format, and the seeds' log line.
#include "worker/train/loop/tensorboard.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "worker/train/loop/log_line.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {
std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}
}  // namespace

TEST_CASE("tensorboard: the version record at wall time 1.0 -> the golden bytes") {
  CHECK(hex(tensorboard_record(tensorboard_version_event(1.0))) ==
        "1800000000000000a37f4b22"
        "09000000000000f03f1a0d627261696e2e4576656e743a32"
        "86bf577a");
}

TEST_CASE(
    "tensorboard: a FIFO has the file's name -> an error at once, without waiting for a reader") {
  const stoker::testing::Folder folder;
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  for (auto second = now; second < now + 5; ++second) {
    const std::string name = "events.out.tfevents." + std::to_string(second) + "." +
                             os::host_name() + "." + std::to_string(::getpid());
    REQUIRE(::mkfifo((folder / name).c_str(), 0600) == 0);
  }
  CHECK(Tensorboard::open(folder.path, Iteration(0)).error().what.find("cannot create") == 0);
}

TEST_CASE("tensorboard: scalar 3.5 of step 7 at wall time 2.0 -> the golden payload and crc") {
  const std::string payload = tensorboard_scalar_event(2.0, Iteration(7), {"loss", 3.5});
  CHECK(hex(payload) == "09000000000000004010072a0d0a0b0a046c6f73731500006040");
  const std::string record = tensorboard_record(payload);
  CHECK(hex(record.substr(record.size() - 4)) == "9df5e2d4");  // d4e2f59d, little endian
}

TEST_CASE("tensorboard: a start at step 300 -> SessionLog START with that step") {
  CHECK(hex(tensorboard_start_event(1.0, Iteration(300))) == "09000000000000f03f10ac023a020801");
}

TEST_CASE("format_iteration_line: numbers -> Megatron-DeepSpeed's columns") {
  CHECK(
      format_iteration_line({Iteration(12), 115311, 2304, 4718592, 105.224, 1.25e-5, 192, 6.5,
                             1.234, 0, 0, 1.825, 149.02}) ==
      " iteration       12/  115311 | consumed samples:         2304 | consumed tokens:      "
      "4718592 | elapsed time per iteration (s): 105.22 | learning rate: 1.250E-05 | global batch "
      "size:   192 | lm loss: 6.500000E+00 | grad norm: 1.234 | number of skipped iterations:   0 "
      "| number of nan iterations:   0 | samples per second: 1.825 | TFLOPs: 149.02 |");
}

TEST_CASE("format_iteration_line: norms and a curriculum -> in Megatron-DeepSpeed's order") {
  IterationLine line;
  line.zeros = 4, line.parameter_norm = 12.5, line.sequence = 112;
  CHECK(format_iteration_line(line).find(
            "| grad norm: 0.000 | num zeros: 4.0 | params norm: 12.500 | curriculum seqlen:   112 "
            "| number of skipped iterations: ") != std::string::npos);
}
