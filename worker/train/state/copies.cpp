#include "worker/train/state/copies.hpp"

#include <algorithm>

namespace stoker::train {
namespace {

using kernels::StateDigest;

// `of[rank]` are the digests of one parameter.
Differing judge(const Parameter* parameter, const std::vector<StateDigest>& of) {
  const auto votes = [&](std::size_t rank) { return std::count(of.begin(), of.end(), of[rank]); };
  Differing d;
  d.parameter = parameter;
  for (std::size_t r = 1; r < of.size(); ++r)
    if (votes(r) > votes(d.good)) d.good = r;
  d.outvoted = true;
  for (std::size_t r = 0; r < of.size(); ++r) {
    if (of[r] == of[d.good]) continue;
    d.bad.push_back(r);
    d.outvoted = d.outvoted && votes(r) < votes(d.good);
  }
  return d;
}

}  // namespace

std::vector<Copies> copies_of(const ParameterTable& table, bool tied) {
  std::vector<Copies> all{{Axis::Data, {}}, {Axis::Tensor, {}}, {Axis::Embedding, {}}};
  for (const Parameter& p : table.parameters) {
    all[0].shared.push_back(&p);
    if (p.replicated) all[1].shared.push_back(&p);
  }
  if (tied && table.word) all[2].shared.push_back(&table.parameters[*table.word]);
  return all;
}

Result<std::vector<Differing>> differing_of(Comm& comm, const FlatState& state,
                                            const Copies& copies, Duration deadline) {
  const std::size_t ranks = comm.mesh().group(copies.axis, comm.rank()).size();
  const std::size_t count = copies.shared.size();
  std::vector<Differing> differing;
  if (ranks < 2 || count == 0) return differing;
  std::vector<StateDigest> mine, all(count * ranks), of(ranks);
  for (const Parameter* p : copies.shared) mine.push_back(state.digest_of(*p));
  STOKER_TRY_STATUS(comm.all_gather(copies.axis, mine.data(), count * sizeof mine[0], all.data(),
                                    {"replicas", deadline}));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < ranks; ++r) of[r] = all[r * count + i];
    if (Differing d = judge(copies.shared[i], of); !d.bad.empty())
      differing.push_back(std::move(d));
  }
  return differing;
}

}  // namespace stoker::train
