#include "worker/train/state/replicas.hpp"

#include <fmt/format.h>

namespace stoker::train {
namespace {

using Shared = std::vector<const Parameter*>;

Status compare(Comm& comm, const FlatState& state, Axis axis, const Shared& shared,
               Duration deadline) {
  const auto ranks = comm.mesh().group(axis, comm.rank());
  if (ranks.size() < 2 || shared.empty()) return ok();
  std::vector<kernels::StateDigest> mine, all(shared.size() * ranks.size());
  for (const Parameter* p : shared) mine.push_back(state.digest_of(*p));
  STOKER_TRY_STATUS(comm.all_gather(axis, mine.data(), mine.size() * sizeof mine[0], all.data(),
                                    {"replicas", deadline}));
  for (std::size_t i = 0; i < shared.size(); ++i)
    for (std::size_t r = 1; r < ranks.size(); ++r)
      if (all[r * shared.size() + i] != all[i])
        return fail(fmt::format("ranks {} and {} hold different bits of it and should not",
                                ranks[0], ranks[r]),
                    shared[i]->name,
                    "the state is not trustworthy: restart from the last checkpoint and watch "
                    "these nodes");
  return ok();
}

}  // namespace

Status compare_replicas(Comm& comm, const FlatState& state, bool tied, Duration deadline) {
  const ParameterTable& table = state.table();
  Shared all, copied, word;
  for (const Parameter& p : table.parameters) all.push_back(&p);
  for (const Parameter& p : table.parameters)
    if (p.replicated) copied.push_back(&p);
  if (tied && table.word) word.push_back(&table.parameters[*table.word]);
  STOKER_TRY_STATUS(compare(comm, state, Axis::Data, all, deadline));
  STOKER_TRY_STATUS(compare(comm, state, Axis::Tensor, copied, deadline));
  return compare(comm, state, Axis::Embedding, word, deadline);
}

}  // namespace stoker::train
