#include "worker/train/run/trace.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "common/os/random.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

using recipe::OpKind;
using recipe::PipelineOp;

constexpr std::size_t kRoom = 1u << 14;        // events: of most steps, fetched ahead
constexpr std::size_t kMostEvents = 1u << 18;  // of a rank: 40 MB of text

// In the order of TraceRow.
constexpr const char* kRowNames[] = {"iteration",
                                     "F forward",
                                     "I, B input gradient",
                                     "W weight gradient",
                                     "send",
                                     "receive",
                                     "reduce",
                                     "optimizer",
                                     "check",
                                     "evaluation",
                                     "save",
                                     "save, beside",
                                     "collective calls"};

TraceRow row_of(OpKind kind) {
  switch (kind) {
    case OpKind::Forward: return TraceRow::Forward;
    case OpKind::Backward:
    case OpKind::InputGradient: return TraceRow::InputGradient;
    case OpKind::WeightGradient: return TraceRow::WeightGradient;
    case OpKind::SendForward:
    case OpKind::SendBackward: return TraceRow::Send;
    case OpKind::RecvForward:
    case OpKind::RecvBackward: return TraceRow::Receive;
    case OpKind::ReduceGradients:
    case OpKind::ReduceTied: return TraceRow::Reduce;
  }
  return TraceRow::Reduce;
}

bool is_reduction(OpKind kind) {
  return kind == OpKind::ReduceGradients || kind == OpKind::ReduceTied;
}

std::string microseconds(Duration d) {
  return fmt::format("{:.3f}", static_cast<double>(d.count()) / 1e3);
}

// What a transfer is called on both of its ends.
std::string transfer_of(const PipelineOp& op, const Trace::Place& place, Iteration iteration) {
  const bool forward = op.kind == OpKind::SendForward || op.kind == OpKind::RecvForward;
  std::uint32_t reader = op.stage;
  if (op.kind == OpKind::SendForward) reader = op.stage + 1;
  if (op.kind == OpKind::SendBackward) reader = op.stage - 1;
  return fmt::format("{}.{}{}.{}.{}.{}", iteration.value, forward ? 'f' : 'b', reader,
                     op.micro_batch, place.mesh.tensor_rank(place.rank),
                     place.mesh.data_rank(place.rank));
}

std::string named(std::uint32_t rank, const char* what, std::optional<int> row, Json arguments) {
  Json event{{"ph", "M"}, {"pid", rank}, {"name", what}, {"args", std::move(arguments)}};
  if (row) event["tid"] = *row;
  return dump_json(event);
}

}  // namespace

Result<TraceRange> parse_trace_range(const std::string& text) {
  const char* const end = text.data() + text.size();
  TraceRange range;
  auto read = std::from_chars(text.data(), end, range.first.value);
  bool good = read.ec == std::errc{};
  range.last = range.first;
  if (good && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, range.last.value);
    good = read.ec == std::errc{};
  }
  if (!good || read.ptr != end || range.first.value == 0 || range.last < range.first)
    return fail(fmt::format("\"{}\" is no range of iterations", text), "--trace-iterations",
                "write 12 or 12-15");
  return range;
}

std::string trace_file_of(const std::string& file, std::uint32_t rank, std::uint32_t world) {
  if (world == 1) return file;
  constexpr std::string_view kEnding = ".json";
  const bool ends = file.ends_with(kEnding);
  return fmt::format("{}.rank{:04d}.json",
                     ends ? file.substr(0, file.size() - kEnding.size()) : file, rank);
}

Trace::~Trace() {
  finish();
}

Result<Trace> Trace::open(const TraceOptions& options, Place place) {
  Trace trace;
  trace.options_ = options;
  trace.place_ = std::move(place);
  if (options.file.empty()) return trace;
  const std::string path =
      trace_file_of(options.file, trace.place_.rank, trace.place_.mesh.world());
  // Found out now, not after the iterations; in /tmp another user may have a name that is foreseen.
  const std::string probe = fmt::format("{}.{}", path, os::random_hex(4));
  const Status made = os::replace_file(probe, "", os::Durability::Cached);
  ::unlink(probe.c_str());
  if (!made)
    return fail("no trace can be written: " + made.error().what, path,
                "name a file in a folder that exists and is writable");
  return trace;
}

bool Trace::plan(Iteration next, Iteration last) {
  if (options_.file.empty() || last < next) return true;
  // The first iteration of a start also fetches its memory: no picture of the others.
  const Iteration second = std::min(next.next(), last);
  TraceRange range = options_.range.value_or(TraceRange{second, second});
  range = {std::max(range.first, next), std::min(range.last, last)};
  if (range.last < range.first) return false;
  range_ = range;
  return true;
}

void Trace::begin(Iteration iteration) {
  if (!range_ || iteration < range_->first || range_->last < iteration) return;
  if (!recording_) events_.reserve(kRoom);
  recording_ = true;
  iteration_ = iteration;
  iteration_began_ = monotonic_now();
  iterations_.emplace_back(events_.size(), iteration);
}

void Trace::end(Iteration iteration) {
  if (!recording_) return;
  keep({iteration_began_,
        monotonic_now() - iteration_began_,
        "iteration",
        0,
        {},
        TraceRow::Iteration});
  if (iteration < range_->last) return;
  recording_ = false;
  writer_ = std::thread([this] {
    constexpr int kLowest = 19;
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest);
    write();
  });
}

void Trace::finish() {
  if (std::exchange(recording_, false)) write();
  if (writer_.joinable()) writer_.join();
}

void Trace::op_begins(const PipelineOp& op) {
  if (!recording_) return;
  op_ = op;
  op_began_ = monotonic_now();
}

void Trace::op_ends() {
  if (recording_) keep({op_began_, monotonic_now() - op_began_, nullptr, 0, op_, row_of(op_.kind)});
}

void Trace::add(TraceRow row, const char* name, Instant began, std::uint64_t bytes) {
  if (recording_) keep({began, monotonic_now() - began, name, bytes, {}, row});
}

void Trace::keep(const Event& event) {
  if (events_.size() < kMostEvents)
    events_.push_back(event);
  else
    ++lost_;
}

Trace::Clock Trace::clock() {
  static const double boot = [] {
    const std::string id = os::boot_id();
    constexpr std::uint64_t kExact = (std::uint64_t{1} << 52) - 1;  // in a double
    return id.empty() ? 0.0 : static_cast<double>(xxh3_64(id) & kExact);
  }();
  return {to_seconds(monotonic_now().time_since_epoch()), boot};
}

void Trace::meet(const Clock& of_rank_0) {
  if (!recording_) return;
  const Clock ours = clock();
  const bool same = ours.boot != 0 && ours.boot == of_rank_0.boot;
  const Duration ahead = same ? Duration{} : from_seconds(ours.seconds - of_rank_0.seconds);
  ahead_ = std::min(ahead, ahead_.value_or(ahead));  // nearest where the sum took least
}

std::string Trace::text() const {
  const Mesh& mesh = place_.mesh;
  const std::uint32_t rank = place_.rank;
  const Json about{{"start", place_.start},
                   {"rank", rank},
                   {"world", mesh.world()},
                   {"first_iteration", range_->first.value},
                   {"last_iteration", range_->last.value},
                   {"left_out", lost_}};
  std::string out = fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n",
                                dump_json(about));
  out.reserve(out.size() + events_.size() * 160);
  const std::string name =
      fmt::format("rank {} on {}: tensor {}, data {}, pipeline {}", rank, place_.host,
                  mesh.tensor_rank(rank), mesh.data_rank(rank), mesh.pipe_rank(rank));
  out += named(rank, "process_name", {}, {{"name", name}});
  out += ",\n" + named(rank, "process_sort_index", {}, {{"sort_index", rank}});
  for (int row = 0; row < static_cast<int>(std::size(kRowNames)); ++row) {
    out += ",\n" + named(rank, "thread_name", row, {{"name", kRowNames[row]}});
    out += ",\n" + named(rank, "thread_sort_index", row, {{"sort_index", row}});
  }
  auto iteration = iterations_.begin();
  for (std::size_t i = 0; i < events_.size(); ++i) {
    while (iteration + 1 < iterations_.end() && (iteration + 1)->first <= i) ++iteration;
    add_text(out, events_[i], iteration->second);
  }
  return out + "\n]}\n";
}

void Trace::add_text(std::string& out, const Event& e, Iteration iteration) const {
  const Duration at = e.began.time_since_epoch() - ahead_.value_or(Duration{});
  const int row = static_cast<int>(e.row);
  const bool op = e.name == nullptr,
             transfer = e.row == TraceRow::Send || e.row == TraceRow::Receive;
  std::string more;
  if (op) more += fmt::format(",\"stage\":{}", e.op.stage);
  if (op && !is_reduction(e.op.kind)) more += fmt::format(",\"micro_batch\":{}", e.op.micro_batch);
  if (e.bytes > 0) more += fmt::format(",\"bytes\":{}", e.bytes);
  out += fmt::format(
      ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"cat\":\"{}\",\"name\":\"{}\","
      "\"args\":{{\"iteration\":{}{}}}}}",
      place_.rank, row, microseconds(at), microseconds(e.took), op ? "operation" : "step",
      op ? e.op.text() : e.name, iteration.value, more);
  if (!op || !transfer) return;
  // An arrow from the middle of the send to the end of the receive.
  const bool sends = e.row == TraceRow::Send;
  const Duration tip = sends ? e.took / 2 : e.took - std::min<Duration>(e.took, 1us);
  out += fmt::format(
      ",\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"cat\":\"transfer\",\"name\":"
      "\"transfer\",\"id\":\"{}\"{}}}",
      sends ? "s" : "f", place_.rank, row, microseconds(at + tip),
      transfer_of(e.op, place_, iteration), sends ? "" : ",\"bp\":\"e\"");
}

// A trace is worth less than the training: what fails is reported, and that is all.
void Trace::write() {
  const std::uint32_t world = place_.mesh.world();
  const std::string path = trace_file_of(options_.file, place_.rank, world);
  const Status written = os::replace_file(path, text(), os::Durability::Cached);
  if (!written) return complain("warning: no trace: " + written.error().message());
  if (lost_ > 0)
    complain(
        fmt::format("warning: {} holds the first {} events, {} more were left out; trace fewer "
                    "iterations",
                    path, kMostEvents, lost_));
  if (place_.rank != 0) return;
  say(fmt::format("trace of iterations {}-{} written to {}{}", range_->first.value,
                  iteration_.value, path,
                  world == 1 ? ""
                             : fmt::format(", those of the other ranks beside it; stoker-train "
                                           "trace {} puts them together",
                                           options_.file)));
}

}  // namespace stoker::train
