#include "recipe/schedule/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace stoker::recipe {
namespace {

constexpr double kNotYet = -1;

class Run {
 public:
  Run(const PipelineSchedule& schedule, const OpTimes& times)
      : s_(schedule),
        times_(times),
        next_(schedule.ranks.size(), 0),
        free_(schedule.ranks.size(), 0),
        alive_(schedule.ranks.size(), 0) {
    const std::size_t cells = std::size_t{s_.stages()} * s_.micro_batches;
    forward_.assign(cells, kNotYet);
    backward_.assign(cells, kNotYet);
    out_.chunks = chunks_per_rank(s_);
    out_.busy.assign(s_.ranks.size(), 0);
    out_.peak.assign(s_.ranks.size(), 0);
    for (const auto& ops : s_.ranks) out_.start.emplace_back(ops.size(), 0);
  }

  Result<Timeline> go() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < s_.ranks.size(); ++r)
        while (next_[r] < s_.ranks[r].size() && step(r)) moved = true;
    }
    for (std::size_t r = 0; r < s_.ranks.size(); ++r)
      if (next_[r] < s_.ranks[r].size()) return fail("deadlock: " + why(r));
    return std::move(out_);
  }

 private:
  struct Need {
    bool exists = false, forward = false;
    std::uint32_t stage = 0;
  };

  // What must be finished before `op`, beside its own forward.
  [[nodiscard]] Need need(const PipelineOp& op) const {
    if (op.kind == OpKind::Forward) return {op.stage > 0, true, op.stage - 1};
    if (is_backward(op.kind)) return {op.stage + 1 < s_.stages(), false, op.stage + 1};
    return {};
  }
  [[nodiscard]] std::size_t cell(std::uint32_t stage, std::uint32_t micro_batch) const {
    return std::size_t{stage} * s_.micro_batches + micro_batch;
  }
  // When `op` may start; kNotYet while something that it needs has not run.
  [[nodiscard]] double ready(const PipelineOp& op) const {
    double at = 0;
    if (op.kind != OpKind::Forward) {
      const auto& own = op.kind == OpKind::WeightGradient ? backward_ : forward_;
      at = own[cell(op.stage, op.micro_batch)];
      if (at == kNotYet) return kNotYet;
    }
    const Need n = need(op);
    if (!n.exists) return at;
    const double there = (n.forward ? forward_ : backward_)[cell(n.stage, op.micro_batch)];
    if (there == kNotYet) return kNotYet;
    const bool far = s_.rank_of_stage[n.stage] != s_.rank_of_stage[op.stage];
    return std::max(at, there + (far ? times_.hop : 0));
  }

  bool step(std::size_t r) {
    const PipelineOp& op = s_.ranks[r][next_[r]];
    double& start = out_.start[r][next_[r]];
    if (!is_compute(op.kind)) {
      start = free_[r];
      return ++next_[r], true;
    }
    const double at = ready(op);
    if (at == kNotYet) return false;
    start = std::max(at, free_[r]);
    const double takes = duration_of(op.kind, times_, out_.chunks);
    free_[r] = start + takes;
    out_.busy[r] += takes;
    out_.makespan = std::max(out_.makespan, free_[r]);
    if (op.kind == OpKind::Forward) {
      forward_[cell(op.stage, op.micro_batch)] = free_[r];
      out_.peak[r] = std::max(out_.peak[r], ++alive_[r]);
    } else {
      if (is_backward(op.kind)) backward_[cell(op.stage, op.micro_batch)] = free_[r];
      if (op.kind != OpKind::InputGradient) --alive_[r];
    }
    return ++next_[r], true;
  }

  // The chain of waits that begins at this rank, until it closes.
  [[nodiscard]] std::string why(std::size_t r) const {
    std::string text;
    for (std::set<std::size_t> seen; seen.insert(r).second;) {
      const PipelineOp& op = s_.ranks[r][next_[r]];
      PipelineOp missing{OpKind::Forward, op.stage, op.micro_batch};
      if (op.kind == OpKind::WeightGradient) missing.kind = OpKind::InputGradient;
      const Need n = need(op);
      if (n.exists && (n.forward ? forward_ : backward_)[cell(n.stage, op.micro_batch)] == kNotYet)
        missing = {n.forward ? OpKind::Forward : OpKind::Backward, n.stage, op.micro_batch};
      const std::size_t owner = s_.rank_of_stage[missing.stage];
      const auto& list = s_.ranks[owner];
      const auto found = std::find_if(list.begin(), list.end(), [&](const PipelineOp& other) {
        return other.stage == missing.stage && other.micro_batch == missing.micro_batch &&
               (missing.kind == OpKind::Forward ? other.kind == OpKind::Forward
                                                : is_backward(other.kind));
      });
      if (!text.empty()) text += "; ";
      text += fmt::format("rank {} cannot run {}: it waits for {}", r, s_.name(op),
                          found == list.end() ? missing.text() : s_.name(*found));
      if (found == list.end()) return text + ", which does not exist";
      if (owner != r)
        text += fmt::format(", which rank {} runs after {}", owner, list[next_[owner]].text());
      else
        text += ", which stands behind it";
      r = owner;
    }
    return text;
  }

  const PipelineSchedule& s_;
  OpTimes times_;
  std::vector<std::size_t> next_;           // of each rank
  std::vector<double> free_;                // when each rank has nothing to do
  std::vector<std::uint32_t> alive_;        // activations of each rank
  std::vector<double> forward_, backward_;  // when they end, by stage and micro-batch
  Timeline out_;
};

}  // namespace

double Timeline::bubble() const {
  if (!(makespan > 0)) return 0;
  double idle = 0;
  for (const double b : busy) idle += makespan - b;
  return idle / (makespan * static_cast<double>(busy.size()));
}

double chunks_per_rank(const PipelineSchedule& schedule) {
  if (schedule.ranks.empty()) return 1;
  return std::max(1.0, std::ceil(static_cast<double>(schedule.stages()) /
                                 static_cast<double>(schedule.ranks.size())));
}

double duration_of(OpKind kind, const OpTimes& t, double chunks) {
  switch (kind) {
    case OpKind::Forward: return t.forward / chunks;
    case OpKind::Backward: return (t.input + t.weight) / chunks;
    case OpKind::InputGradient: return t.input / chunks;
    case OpKind::WeightGradient: return t.weight / chunks;
    case OpKind::SendForward:
    case OpKind::RecvForward:
    case OpKind::SendBackward:
    case OpKind::RecvBackward:
    case OpKind::ReduceGradients:
    case OpKind::ReduceTied: return 0;
  }
  return 0;
}

Result<Timeline> simulate(const PipelineSchedule& schedule, const OpTimes& times) {
  return Run(schedule, times).go();
}

}  // namespace stoker::recipe
