// The samples of the trainer: which ones an iteration reads, and what is noted about them.
#include <cerrno>
#include <map>

#include "common/os/errno_words.hpp"
#include "worker/train/loop/trainer.hpp"

namespace stoker::train {

Result<MicroBatch> Trainer::fetch(const TrainingData& data, SampleRange range,
                                  std::uint64_t sequence, ReadAhead* ahead) {
  MicroBatch batch;
  for (std::uint64_t id = range.first; id < range.first + range.count; ++id) {
    // Only a skipped data window leads beyond the end; the order then begins again.
    const std::uint64_t within = id % data.samples();
    auto sample = ahead ? ahead->sample(within) : data.sample(within);
    // An error of the device below speaks against this node, all else against the data.
    data_unreadable_ = !sample && !os::has_errno(sample.error(), {EIO});
    if (!sample) return fail(sample.error());
    batch.samples.push_back(id);
    const auto end = sample->tokens.begin() + static_cast<std::ptrdiff_t>(sequence + 1);
    batch.tokens.insert(batch.tokens.end(), sample->tokens.begin(), end);
  }
  return batch;
}

void Trainer::read_ahead(const Step& step) {
  const std::uint32_t rank = p_.comm.mesh().data_rank(p_.comm.rank());
  BatchCut cut = cut_of(step);
  std::vector<std::uint64_t> ids;
  const auto add = [&] {
    for (std::uint64_t m = 0; m < cut.micro_steps(); ++m) {
      const SampleRange range = cut.samples(m, rank);
      for (std::uint64_t id = range.first; id < range.first + range.count; ++id)
        ids.push_back(id % p_.data.samples());
    }
  };
  add();
  if (position_.iteration.next().value < total_) {
    const std::uint64_t consumed = position_.consumed_samples + step.global;
    cut.consumed += step.global;
    cut.global = plan_.global_batch(consumed);
    cut.micro = plan_.micro_batch(consumed);
    add();
  }
  ahead_.plan(ids);
}

BatchCut Trainer::cut_of(const Step& step) const {
  return {position_.consumed_samples + position_.data_offset, step.global, step.micro,
          p_.comm.mesh().dp};
}

Status Trainer::note_samples(const Step& step) {
  if (!samples_log_) return ok();
  const std::uint64_t first = position_.consumed_samples + position_.data_offset;
  const std::uint64_t last = first + step.global - 1;
  std::map<std::uint32_t, std::uint64_t> sources;
  if (last < p_.data.samples()) {  // else the data begin again
    STOKER_TRY(counts, p_.data.source_counts(first, last));
    sources = std::move(counts);
  }
  return samples_log_->append({position_.iteration.next(), first, last, std::move(sources),
                               p_.environment.generation, p_.environment.attempt});
}

}  // namespace stoker::train
