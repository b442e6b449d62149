// The heartbeat page: one mmapped file a rank, made by the agent (posix_fallocated, so a full
// /dev/shm cannot SIGBUS), written by the training, read by the agent every few hundred
// milliseconds. Fixed little-endian layout, version 1; a 30-line Python client stands beside this
// header (heartbeat_client.py). Times are CLOCK_MONOTONIC nanoseconds of the node.
//
// clang-format off
//   offset size  field
//   0      8     magic "STOKERHB"
//   8      4     u32 version = 1
//   12     4     u32 sequence (seqlock)
//   16     4     u32 attempt
//   20     4     u32 phase
//   24     8     i64 phase_since
//   32     8     i64 progress_at
//   40     8     u64 iteration (completed)
//   48     8     u64 total iterations
//   56     8     u64 consumed samples
//   64     8     f64 loss
//   72     8     f64 learning rate
//   80     8     f64 seconds of the last iteration
//   88     8     f64 TFLOPs
//   96     8     f64 gradient norm
//   104    8     i64 compute ns of the last iteration, without waits
//   112    8     u64 iteration of the last checkpoint saved
//   120    8     u64 steps done within the phase (evaluation, load)
//   128    4     u32 pid of the writer
//   132    4     u32 flags (bit 0: loss is valid)
//   136    8     u64 consumed tokens
//   144    8     u64 save requests answered (echo of save_request)
//   152    8     u64 iteration of the norms that follow (0: none)
//   160    4     u32 how many, at most 256
//   164    1024  f32 gradient norm of each group of layers: embedding, layers, final norm
//   2048   8     u64 save_request: grows by one for each `save` (written by the agent)
//   2056   4     u32 leave: 0 go on, 1 save and leave, 2 leave without saving (by the agent)
//   4096   4096  ring of the last collectives: 64 entries, that of a number at (number % 64)
// An entry of the ring:
//   0      8     u64 number (from 1)
//   8      8     i64 entered_at
//   16     8     i64 left_at (0: still inside)
//   24     8     u64 bytes
//   32     32    char name[32]
// clang-format on
// The writer makes `sequence` odd, writes, makes it even; a reader retries while it is odd or
// changed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::wire {

enum class Phase : std::uint32_t { Startup, Load, Iteration, Evaluation, Checkpoint, Shutdown };
enum class Leave : std::uint32_t { GoOn, SaveAndLeave, LeaveNow };

inline constexpr std::size_t kHeartbeatBytes = 8192;

struct Heartbeat {
  Attempt attempt;
  Phase phase = Phase::Startup;
  Instant phase_since;  // monotonic time of the node
  Instant progress_at;  // the last sign of life that means progress: micro-batch, evaluation batch,
                        // bytes loaded
  Iteration iteration;  // completed
  std::uint64_t total = 0;
  std::uint64_t consumed_samples = 0;
  std::uint64_t consumed_tokens = 0;
  std::optional<double> loss;
  double learning_rate = 0;
  double iteration_seconds = 0;
  double tflops = 0;
  double gradient_norm = 0;
  Duration compute{};
  Iteration checkpoint;  // last saved in this attempt; 0 = none
  std::uint64_t phase_steps = 0;
  std::uint32_t pid = 0;
  std::uint64_t saves_answered = 0;
  Iteration norms_at;              // of `group_norms`
  std::vector<float> group_norms;  // wire/step_losses.hpp; empty where they are not wanted
};

struct CollectiveRecord {
  std::uint64_t number = 0;
  Instant entered_at;
  std::optional<Instant> left_at;
  std::uint64_t bytes = 0;
  std::string name;  // at most 31 bytes
};

// One mapped page. The agent creates it; agent and training open it. Not thread-safe; one writer
// per half.
class HeartbeatPage {
 public:
  static Result<HeartbeatPage> create(const std::string& path);  // replaces an old file
  static Result<HeartbeatPage> open(
      const std::string& path);  // refuses wrong magic, version or size
  HeartbeatPage(HeartbeatPage&&) noexcept;
  HeartbeatPage& operator=(HeartbeatPage&&) noexcept;
  ~HeartbeatPage();

  // Training's side.
  void write(const Heartbeat& beat);
  [[nodiscard]] std::uint64_t save_request() const;
  [[nodiscard]] Leave leave() const;
  std::uint64_t enter_collective(const std::string& name, std::uint64_t bytes, Instant now);
  void leave_collective(std::uint64_t number, Instant now);

  // Agent's side. Empty: not written yet, or a writer died inside a write (after a bounded
  // number of tries).
  [[nodiscard]] std::optional<Heartbeat> read() const;
  [[nodiscard]] std::vector<CollectiveRecord> collectives()
      const;  // oldest first; hostile content is bounded
  // Whether the training is inside a collective. Empty: it has noted none.
  [[nodiscard]] std::optional<bool> in_collective() const;
  void request_save();  // save_request += 1
  void request_leave(Leave how);

 private:
  explicit HeartbeatPage(unsigned char* bytes) : bytes_(bytes) {}
  unsigned char* bytes_ = nullptr;
  os::Fd lock_;  // of the creator: says that the page is not abandoned
};

// Removes the heartbeat pages in `directory` that agents of this user left when they were killed:
// named "stoker.*", older than a minute, and unlocked. Returns how many.
std::size_t sweep_heartbeat_pages(const std::string& directory = "/dev/shm");

}  // namespace stoker::wire

template <>
struct stoker::EnumNames<stoker::wire::Phase> {
  static constexpr std::array names{"startup",    "load",       "iteration",
                                    "evaluation", "checkpoint", "shutdown"};
};
template <>
struct stoker::EnumNames<stoker::wire::Leave> {
  static constexpr std::array names{"go_on", "save_and_leave", "leave_now"};
};
