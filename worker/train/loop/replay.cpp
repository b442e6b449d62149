#include "worker/train/loop/replay.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "common/hash.hpp"

namespace stoker::train {
namespace {

using recipe::OpKind;
using recipe::PipelineOp;

bool adds_gradients(OpKind kind) {
  return kind == OpKind::Backward || kind == OpKind::InputGradient ||
         kind == OpKind::WeightGradient;
}

// What the computations of one place in the replica say.
struct Vote {
  bool differs = false;
  std::vector<std::uint32_t> suspects;
  bool outvoted = false;
};

Vote vote_of(const ReplayRecord& own, std::uint32_t rank, const ReplayRecord* next,
             std::uint32_t next_rank) {
  const ReplayNumbers &original = own.original, &again = own.again;
  const bool known = original.there != 0;
  const bool same = !known || original.equals(again);
  if (next == nullptr) return {!same, {rank}, !same};
  const bool next_same = again.equals(next->again);
  if (same && next_same) return {};
  if (next_same) return {true, {rank}, true};  // the original alone is different
  if (known && original.equals(next->again)) return {true, {rank}, true};
  if (known && same) return {true, {next_rank}, true};
  return {true, {rank, next_rank}, false};
}

std::string list_of(const std::vector<std::uint32_t>& ranks) {
  std::string text;
  for (const std::uint32_t rank : ranks)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

}  // namespace

bool ReplayNumbers::equals(const ReplayNumbers& other) const {
  return there == other.there && gradients == other.gradients &&
         std::bit_cast<std::uint64_t>(loss) == std::bit_cast<std::uint64_t>(other.loss);
}

std::optional<ReplayDiffers> judge_replay(const Mesh& mesh, std::uint32_t replica,
                                          const std::vector<ReplayRecord>& records) {
  const std::uint32_t next = (replica + 1) % mesh.dp;
  ReplayDiffers found;
  found.outvoted = true;
  std::string places;
  for (std::uint32_t rank = 0; rank < mesh.world(); ++rank) {
    if (mesh.data_rank(rank) != replica) continue;
    const std::uint32_t peer = rank - replica * mesh.tp + next * mesh.tp;
    const Vote vote =
        vote_of(records[rank], rank, next != replica ? &records[peer] : nullptr, peer);
    if (!vote.differs) continue;
    found.outvoted = found.outvoted && vote.outvoted;
    for (const std::uint32_t suspect : vote.suspects)
      if (std::find(found.ranks.begin(), found.ranks.end(), suspect) == found.ranks.end())
        found.ranks.push_back(suspect);
  }
  if (found.ranks.empty()) return std::nullopt;
  // What one rank computed wrongly, the others of its replica computed on with.
  const bool spreads = mesh.tp * mesh.pp > 1;
  std::sort(found.ranks.begin(), found.ranks.end());
  if (spreads) found.outvoted = false;
  found.what = fmt::format(
      "micro-batch 0 of replica {}, computed again{}: loss or gradients are not the same bits; "
      "rank{} {} {}",
      replica, next != replica ? fmt::format(" there and on replica {}", next) : "",
      found.ranks.size() == 1 ? "" : "s", list_of(found.ranks),
      found.outvoted ? "computes wrongly"
      : spreads      ? "compute with what one of them got wrong"
                     : "differ, and nothing says which one is right");
  return found;
}

std::optional<std::size_t> first_alone(const std::vector<PipelineOp>& ops) {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (adds_gradients(ops[i].kind) && ops[i].micro_batch == 0) last = i;
  if (!last) return std::nullopt;
  const bool mixed = std::any_of(
      ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(*last),
      [](const PipelineOp& op) { return adds_gradients(op.kind) && op.micro_batch != 0; });
  return mixed ? std::nullopt : last;
}

std::uint32_t Replay::replica_of(std::uint64_t turn) const {
  return static_cast<std::uint32_t>(turn % comm_.mesh().dp);
}

std::uint64_t Replay::digest() const {
  const Buffer gradients = state_.gradients();
  const HostView view(state_.device(), gradients.data, gradients.bytes());
  return xxh3_64({static_cast<const char*>(view.data()), gradients.bytes()});
}

Result<ReplayNumbers> Replay::once(const Turn& turn) {
  state_.zero_gradients();
  double mean = 0;
  ExecutorHooks hooks;
  hooks.fetch = turn.fetch;
  hooks.after_op = turn.progress;
  hooks.loss = [&](std::uint32_t, double loss) { mean = loss; };
  const auto loss = run_schedule({turn.single, comm_, deadline_, turn.weight}, model_, hooks);
  if (!loss) return fail(loss.error());
  return ReplayNumbers{1, mean, digest()};
}

Status Replay::run(const Turn& turn) {
  replica_ = turn.replica;
  mine_ = {};
  const Mesh& mesh = comm_.mesh();
  const std::uint32_t own = mesh.data_rank(comm_.rank());
  if (own != replica_ && own != (replica_ + 1) % mesh.dp) return ok();
  // Without another replica, and where the step mixes micro-batches.
  const bool twice = mesh.dp == 1 && std::any_of(turn.step.ranks.begin(), turn.step.ranks.end(),
                                                 [](const auto& ops) { return !first_alone(ops); });
  if (twice) {
    STOKER_TRY(first, once(turn));
    mine_.original = first;
  }
  STOKER_TRY(again, once(turn));
  mine_.again = again;
  return ok();
}

void Replay::watch(const std::vector<PipelineOp>& ops) {
  watching_ = comm_.mesh().data_rank(comm_.rank()) == replica_;
  alone_after_ = first_alone(ops);
  done_ = 0;
}

void Replay::after_op() {
  if (!watching_) return;
  if (alone_after_ == done_++) {
    mine_.original.there = 1;
    mine_.original.gradients = digest();
  }
}

void Replay::loss(std::uint32_t micro_batch, double mean) {
  if (watching_ && micro_batch == 0) mine_.original.loss = mean;
}

Result<std::optional<ReplayDiffers>> Replay::compare() {
  watching_ = false;
  std::vector<ReplayRecord> all(comm_.mesh().world());
  STOKER_TRY_STATUS(
      comm_.all_gather(Axis::World, &mine_, sizeof mine_, all.data(), {"replay", deadline_}));
  return judge_replay(comm_.mesh(), replica_, all);
}

}  // namespace stoker::train
