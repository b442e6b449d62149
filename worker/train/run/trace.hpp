// Trace: what one rank does in a few iterations, as a file in Chrome's trace event format, which
// Perfetto opens. While it records, an event costs two looks at the clock and 64 bytes of memory;
// the file is written from a thread of its own when the last iteration is over. Each rank writes
// its own file (`stoker-train trace` puts them together), with times on the clock of rank 0.
#pragma once

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/ids.hpp"
#include "recipe/schedule/schedule.hpp"
#include "worker/train/comm/comm.hpp"

namespace stoker::train {

// One row each in the picture; events of a row never overlap.
enum class TraceRow {
  Iteration,
  Forward,
  InputGradient,  // whole backwards too
  WeightGradient,
  Send,
  Receive,
  Reduce,
  Optimizer,
  Check,
  Evaluation,
  Save,
  Background,  // a save that is written while the training goes on
  Collective,  // calls of the network that several ranks make together
};

struct TraceRange {  // of iterations
  Iteration first, last;
};
// "12" or "12-15".
Result<TraceRange> parse_trace_range(const std::string& text);

struct TraceOptions {
  std::string file;                 // --trace; "" = no trace
  std::optional<TraceRange> range;  // --trace-iterations; empty: the second one of this start
};

// The file of one rank: `file` itself where it is alone, else "step.rank0003.json" of "step.json".
std::string trace_file_of(const std::string& file, std::uint32_t rank, std::uint32_t world);

class Trace {
 public:
  struct Place {  // of the rank
    std::uint32_t rank = 0;
    Mesh mesh;
    std::string host, start;  // `start` is the same for all ranks of one start
  };

  Trace() = default;         // records nothing
  Trace(Trace&&) = default;  // before plan()
  Trace& operator=(Trace&&) = delete;
  ~Trace();
  // Error: the file cannot be written there.
  static Result<Trace> open(const TraceOptions& options, Place place);

  // The iterations that this start makes. False: those that were asked for are not among them.
  bool plan(Iteration next, Iteration last);
  void begin(Iteration iteration);
  // Behind the last iteration the file is on its way.
  void end(Iteration iteration);
  // The training ends: the file is written when it returns, with what there is so far.
  void finish();

  [[nodiscard]] bool records() const { return recording_; }
  [[nodiscard]] const std::optional<TraceRange>& range() const { return range_; }
  void op_begins(const recipe::PipelineOp& op);
  void op_ends();
  // `name` is kept as it is: a literal. `bytes` of a call.
  void add(TraceRow row, const char* name, Instant began, std::uint64_t bytes = 0);
  // At the end of a sum over the world: when rank 0 entered it, and which boot of which host is
  // its clock.
  struct Clock {
    double seconds = 0, boot = 0;
  };
  static Clock clock();
  void meet(const Clock& of_rank_0);

 private:
  struct Event {
    Instant began;
    Duration took{};
    const char* name = nullptr;  // null: the operation's
    std::uint64_t bytes = 0;
    recipe::PipelineOp op;
    TraceRow row = TraceRow::Iteration;
  };
  void keep(const Event& event);
  [[nodiscard]] std::string text() const;
  void add_text(std::string& out, const Event& event, Iteration iteration) const;
  void write();

  TraceOptions options_;
  Place place_;
  std::optional<TraceRange> range_;  // planned
  bool recording_ = false;
  Iteration iteration_;
  Instant iteration_began_, op_began_;
  recipe::PipelineOp op_;
  std::vector<Event> events_;
  std::vector<std::pair<std::size_t, Iteration>> iterations_;  // first event of each
  std::uint64_t lost_ = 0;                                     // beyond what is kept
  std::optional<Duration> ahead_;                              // of rank 0's clock
  std::thread writer_;
};

// From its construction to its end one event of a row.
class TraceSpan {
 public:
  TraceSpan(Trace& trace, TraceRow row, const char* name, std::uint64_t bytes = 0)
      : trace_(trace.records() ? &trace : nullptr), row_(row), name_(name), bytes_(bytes) {
    if (trace_ != nullptr) began_ = monotonic_now();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->add(row_, name_, began_, bytes_);
  }

 private:
  Trace* trace_;
  TraceRow row_;
  const char* name_;
  std::uint64_t bytes_;
  Instant began_;
};

}  // namespace stoker::train
