// Source: megatron/core/datasets/gpt_dataset.py and helpers.cpp (build_sample_idx); the order of
// the draws matters.
#include "worker/train/data/sample_index.hpp"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

#include "worker/train/data/numpy_random.hpp"

namespace stoker::train {
namespace {

constexpr std::uint64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kMaxEntries = 1ull << 33;  // documents times epochs: 32 GiB of index

struct Epochs {
  std::uint64_t tokens = 0;  // of one epoch
  std::uint64_t count = 0;
  bool separate_last = false;
  std::uint64_t samples_before_last = 0;
};

Epochs count_epochs(const SampleIndexSpec& spec, std::uint64_t tokens) {
  Epochs e;
  e.tokens = tokens;
  const std::uint64_t wanted = spec.samples * spec.sequence + 1;
  e.count = (wanted + tokens - 1) / tokens;
  if (e.count <= 1) return e;
  e.samples_before_last = ((e.count - 1) * tokens - 1) / spec.sequence;
  const std::uint64_t from_last = spec.samples - e.samples_before_last;
  const std::uint64_t an_epoch = (tokens - 1) / spec.sequence;
  e.separate_last = from_last < static_cast<std::uint64_t>(spec.last_epoch_threshold *
                                                           static_cast<double>(an_epoch));
  return e;
}

std::vector<std::int32_t> shuffled_documents(const SampleIndexSpec& spec, const Epochs& epochs,
                                             NumpyRandom& random) {
  const std::uint64_t n = spec.end_document - spec.first_document;
  std::vector<std::int32_t> documents;
  documents.reserve(n * epochs.count);
  for (std::uint64_t epoch = 0; epoch < epochs.count; ++epoch)
    for (std::uint64_t d = spec.first_document; d < spec.end_document; ++d)
      documents.push_back(static_cast<std::int32_t>(d));
  const std::span all(documents);
  if (epochs.separate_last) {
    random.shuffle(all.first(all.size() - n));
    random.shuffle(all.last(n));
  } else {
    random.shuffle(all);
  }
  return documents;
}

template <class T>
std::vector<T> cut_samples(std::uint64_t sequence, std::span<const std::int32_t> lengths,
                           std::span<const std::int32_t> documents, std::uint64_t samples) {
  std::vector<T> pairs;
  pairs.reserve(2 * (samples + 1));
  std::uint64_t position = 0;
  std::int64_t offset = 0;
  pairs.push_back(0);
  pairs.push_back(0);
  for (std::uint64_t k = 0; k < samples; ++k) {
    auto remaining = static_cast<std::int64_t>(sequence) + 1;
    while (remaining > 0) {
      const std::int64_t length = lengths[static_cast<std::size_t>(documents[position])] - offset;
      remaining -= length;
      if (remaining <= 0) {
        offset += remaining + length - 1;
      } else {
        STOKER_CHECK(position + 1 < documents.size(), "samples go beyond the documents");
        ++position;
        offset = 0;
      }
    }
    pairs.push_back(static_cast<T>(position));
    pairs.push_back(static_cast<T>(offset));
  }
  return pairs;
}

template <class T>
std::vector<T> shuffled_samples(std::uint64_t samples, std::uint64_t first_part,
                                NumpyRandom& random) {
  std::vector<T> order(samples);
  std::iota(order.begin(), order.end(), T{0});
  const std::span all(order);
  random.shuffle(all.first(first_part));
  if (first_part < samples) random.shuffle(all.subspan(first_part));
  return order;
}

}  // namespace

Result<SampleIndex> build_sample_index(const SampleIndexSpec& spec,
                                       std::span<const std::int32_t> lengths) {
  STOKER_CHECK(spec.end_document <= lengths.size() && spec.sequence > 0, "bad sample index spec");
  std::uint64_t tokens = 0;
  std::int32_t longest = 0;
  for (std::uint64_t d = spec.first_document; d < spec.end_document; ++d) {
    tokens += static_cast<std::uint64_t>(lengths[d]);
    longest = std::max(longest, lengths[d]);
  }
  if (tokens == 0) return fail("no tokens in this split", {}, "give more text or another split");
  if (spec.samples == 0) return fail("no samples are asked for");
  if (spec.samples > std::numeric_limits<std::uint64_t>::max() / 4 / spec.sequence)
    return fail("too many samples are asked for");
  const Epochs epochs = count_epochs(spec, tokens);
  const std::uint64_t documents = spec.end_document - spec.first_document;
  if (epochs.count > kMaxEntries / documents)
    return fail(fmt::format("{} tokens would have to be repeated {} times for {} samples", tokens,
                            epochs.count, spec.samples),
                {}, "give more text or fewer samples");
  const std::uint64_t samples = (epochs.count * tokens - 1) / spec.sequence;
  NumpyRandom random(spec.seed);
  std::vector<std::int32_t> order = shuffled_documents(spec, epochs, random);
  SampleIndex index;
  if (order.size() <= kMaxInt32)  // offsets always fit: a document has at most 2^31-1 tokens
    index.sample_index =
        IntegerArray(cut_samples<std::int32_t>(spec.sequence, lengths, order, samples));
  else
    index.sample_index =
        IntegerArray(cut_samples<std::int64_t>(spec.sequence, lengths, order, samples));
  index.document_index = IntegerArray(std::move(order));
  const std::uint64_t first_part = epochs.separate_last ? epochs.samples_before_last : samples;
  if (samples < std::numeric_limits<std::uint32_t>::max() - 1ull)
    index.shuffle_index =
        IntegerArray(shuffled_samples<std::uint32_t>(samples, first_part, random));
  else
    index.shuffle_index = IntegerArray(shuffled_samples<std::int64_t>(samples, first_part, random));
  return index;
}

SplitRange split_range(std::span<const double> weights, std::size_t which,
                       std::uint64_t documents) {
  STOKER_CHECK(which < weights.size(), "no such split");
  double sum = 0;
  for (const double w : weights) sum += w;
  std::vector<double> edges{0.0};
  for (const double w : weights) edges.push_back(edges.back() + w / sum);
  const auto place = [&](double share) {
    return std::min(documents, static_cast<std::uint64_t>(
                                   std::nearbyint(share * static_cast<double>(documents))));
  };
  return {place(edges[which]), place(edges[which + 1])};
}

}  // namespace stoker::train
