// The arrays of a data set's samples and of a blend, from the cache or built (array_cache.hpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "worker/train/data/array_cache.hpp"
#include "worker/train/data/indexed_dataset.hpp"
#include "worker/train/data/sample_index.hpp"

namespace stoker::train {

// The JSON description: keys sorted, no spaces.
std::string describe_index(const IndexedDataset& data, const SampleIndexSpec& spec);

// SampleIndex as it is read.
struct CachedIndex {
  CachedArrays cache;  // document, sample, shuffle
  std::string description;

  [[nodiscard]] const IndexArray& document_index() const { return cache.arrays[0]; }
  [[nodiscard]] const IndexArray& sample_index() const { return cache.arrays[1]; }
  [[nodiscard]] const IndexArray& shuffle_index() const { return cache.arrays[2]; }
  [[nodiscard]] std::uint64_t samples() const { return shuffle_index().size(); }
};
// `folder` "" = no cache.
Result<CachedIndex> load_or_build_index(const std::string& folder, const IndexedDataset& data,
                                        const SampleIndexSpec& spec);

// Blend as it is read.
struct CachedBlend {
  CachedArrays cache;  // dataset, dataset_sample, used

  [[nodiscard]] const IndexArray& source() const { return cache.arrays[0]; }
  [[nodiscard]] const IndexArray& within() const { return cache.arrays[1]; }
  [[nodiscard]] const IndexArray& used() const { return cache.arrays[2]; }
};
Result<CachedBlend> load_or_build_blend(const std::string& folder, std::span<const double> weights,
                                        std::uint64_t samples);

}  // namespace stoker::train
