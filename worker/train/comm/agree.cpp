#include "worker/train/comm/agree.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace stoker::train {
namespace {

struct Verdict {  // travels between ranks
  std::uint64_t ok = 1;
  char why[500] = {};
};

}  // namespace

Status agree(Comm& comm, const Status& mine, const std::string& object, const Call& call,
             bool& peer_lost) {
  Verdict verdict;
  if (!mine) {
    verdict.ok = 0;
    const std::string text = mine.error().message();
    std::memcpy(verdict.why, text.data(), std::min(text.size(), sizeof verdict.why - 1));
  }
  std::vector<Verdict> all(comm.mesh().world());
  if (Status done = comm.all_gather(Axis::World, &verdict, sizeof verdict, all.data(), call);
      !done) {
    peer_lost = true;
    return done;
  }
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].ok == 0) return fail(fmt::format("rank {}: {}", r, all[r].why), object);
  return ok();
}

}  // namespace stoker::train
