// Megatron's GPT sample index: which tokens make sample i, as three arrays that follow from
// (lengths of the documents, samples wanted, sequence, seed, threshold) alone, bit for bit as
// Megatron makes them:
//   document_index  the split's documents, once an epoch, shuffled
//   sample_index    pairs (position in document_index, token offset); sample k spans pairs k and
//   k+1, sequence + 1 tokens,
//                   and begins with the last token of the sample before
//   shuffle_index   the order in which samples are drawn
// The last epoch is shuffled apart when less than threshold of it is used: 0.80 in Megatron, 0.95
// in Megatron-DeepSpeed.
#pragma once

#include <cstdint>
#include <span>

#include "common/result.hpp"
#include "worker/train/data/integer_array.hpp"

namespace stoker::train {

struct SampleIndexSpec {
  std::uint64_t first_document = 0;  // the split: documents [first, end)
  std::uint64_t end_document = 0;
  std::uint64_t samples = 0;  // wanted
  std::uint64_t sequence = 0;
  std::uint32_t seed = 0;
  double last_epoch_threshold = 0.80;
};

struct SampleIndex {
  IntegerArray document_index;
  IntegerArray sample_index;  // 2 (samples + 1) entries
  IntegerArray shuffle_index;

  [[nodiscard]] std::uint64_t samples() const { return shuffle_index.size(); }
  bool operator==(const SampleIndex&) const = default;
};

// Errors: no tokens in the split, fewer than one sample, so small that more than 2^31 documents
// would be repeated.
Result<SampleIndex> build_sample_index(const SampleIndexSpec& spec,
                                       std::span<const std::int32_t> lengths);

// [first, end) of each of the three splits of `documents`: weights normalised, cumulative, rounded
// half to even.
struct SplitRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};
SplitRange split_range(std::span<const double> weights, std::size_t which, std::uint64_t documents);

}  // namespace stoker::train
