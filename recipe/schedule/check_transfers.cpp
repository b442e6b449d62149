// Logical progress of a lowered schedule, without durations.
#include <deque>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <tuple>

#include "recipe/schedule/passes.hpp"
#include "recipe/schedule/simulate.hpp"
#include "recipe/schedule/validate.hpp"

namespace stoker::recipe {
namespace {

// The other side of a transfer or of REDUCE_TIED; empty for what a rank does alone.
std::optional<PipelineOp> partner(const PipelineSchedule& s, const PipelineOp& op) {
  switch (op.kind) {
    case OpKind::SendForward: return PipelineOp{OpKind::RecvForward, op.stage + 1, op.micro_batch};
    case OpKind::RecvForward: return PipelineOp{OpKind::SendForward, op.stage - 1, op.micro_batch};
    case OpKind::SendBackward:
      return PipelineOp{OpKind::RecvBackward, op.stage - 1, op.micro_batch};
    case OpKind::RecvBackward:
      return PipelineOp{OpKind::SendBackward, op.stage + 1, op.micro_batch};
    case OpKind::ReduceTied:
      return PipelineOp{OpKind::ReduceTied, op.stage == 0 ? s.stages() - 1 : 0, 0};
    case OpKind::Forward:
    case OpKind::Backward:
    case OpKind::InputGradient:
    case OpKind::WeightGradient:
    case OpKind::ReduceGradients: return std::nullopt;
  }
  return std::nullopt;
}

bool is_send(OpKind kind) {
  return kind == OpKind::SendForward || kind == OpKind::SendBackward;
}

class Walk {
 public:
  Walk(const PipelineSchedule& schedule, Channel channel)
      : s_(schedule), channel_(channel), next_(schedule.ranks.size(), 0) {}

  Status go() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < s_.ranks.size(); ++r) {
        while (true) {
          const auto stepped = step(r);
          if (!stepped) return fail(stepped.error());
          if (!*stepped) break;
          moved = true;
        }
      }
    }
    for (std::size_t r = 0; r < s_.ranks.size(); ++r)
      if (next_[r] < s_.ranks[r].size()) return fail(stuck());
    return ok();
  }

 private:
  [[nodiscard]] const PipelineOp* head(std::size_t r) const {
    return next_[r] < s_.ranks[r].size() ? &s_.ranks[r][next_[r]] : nullptr;
  }

  Result<bool> step(std::size_t r) {
    const PipelineOp* op = head(r);
    if (op == nullptr) return false;
    const auto other = partner(s_, *op);
    if (!other) return ++next_[r], true;
    if (other->stage >= s_.stages()) return fail("has no other side", s_.name(*op));
    const std::size_t peer = s_.rank_of_stage[other->stage];
    if (channel_ == Channel::Buffered && is_send(op->kind)) {
      sent_[{r, peer}].push_back(*op);
      return ++next_[r], true;
    }
    if (channel_ == Channel::Buffered && op->kind != OpKind::ReduceTied)
      return receive(r, peer, *other);
    const PipelineOp* there = head(peer);
    if (there == nullptr || !(*there == *other)) return false;
    ++next_[r], ++next_[peer];
    return true;
  }

  Result<bool> receive(std::size_t r, std::size_t peer, const PipelineOp& wanted) {
    auto& queue = sent_[{peer, r}];
    if (queue.empty()) return false;
    if (!(queue.front() == wanted))
      return fail(fmt::format("rank {} waits for {} of rank {}, which sent {} first", r,
                              wanted.text(), peer, queue.front().text()),
                  s_.file);
    queue.pop_front();
    return ++next_[r], true;
  }

  [[nodiscard]] std::string stuck() const {
    std::string text = "deadlock of transfers:";
    int told = 0;
    for (std::size_t r = 0; r < s_.ranks.size() && told < 4; ++r)
      if (const PipelineOp* op = head(r))
        text += fmt::format("{} rank {} waits in {}", told++ > 0 ? "," : "", r, s_.name(*op));
    return text;
  }

  const PipelineSchedule& s_;
  Channel channel_;
  std::vector<std::size_t> next_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<PipelineOp>> sent_;  // from, to
};

}  // namespace

Status check_transfers(const PipelineSchedule& schedule, Channel channel) {
  return Walk(schedule, channel).go();
}

Result<PipelineSchedule> lower(const PipelineSchedule& schedule, bool tied_embedding) {
  STOKER_TRY_STATUS(validate(schedule));
  PipelineSchedule lowered = schedule;
  insert_transfers(lowered);
  STOKER_TRY_STATUS(order_transfers(lowered));
  place_reductions(lowered, tied_embedding);
  STOKER_TRY_STATUS(check_transfers(lowered, Channel::Blocking));
  STOKER_TRY_STATUS(check_transfers(lowered, Channel::Buffered));
  return lowered;
}

}  // namespace stoker::recipe
