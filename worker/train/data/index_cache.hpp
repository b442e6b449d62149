// The sample index on disk: <name>-{document,sample,shuffle}_index.npy and <name>-description.txt
// in one folder, where <name> is the MD5 of the JSON description of everything the index depends
// on. The description is written last and also holds the XXH3 of each array, so a torn, stale or
// damaged cache is built again. What another user can have written is not read: the index decides
// what is trained on. Any number of ranks may build at once: they write the same bytes and every
// file is replaced atomically.
#pragma once

#include <optional>
#include <string>

#include "worker/train/data/indexed_dataset.hpp"
#include "worker/train/data/sample_index.hpp"

namespace stoker::train {

// The JSON description: keys sorted, no spaces.
std::string describe_index(const IndexedDataset& data, const SampleIndexSpec& spec);
std::string md5_hex(std::string_view text);

struct CachedIndex {
  SampleIndex index;
  std::string description;
  bool from_cache = false;
  std::optional<Error> problem;  // the cache is refused or could not be written; the index is good
};

// From the cache, else built and put there. `folder` "" = no cache.
Result<CachedIndex> load_or_build_index(const std::string& folder, const IndexedDataset& data,
                                        const SampleIndexSpec& spec);

}  // namespace stoker::train
