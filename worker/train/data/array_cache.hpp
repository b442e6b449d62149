// Arrays that cost minutes to build, kept on disk: <stem>-<name>_index.npy each, where <stem> is
// the MD5 of a description of everything they depend on, <stem>-blocks.bin with the hashes of their
// blocks, and <stem>-description.txt, written last, which also holds the XXH3 of the blocks file.
// So a torn, stale or replaced cache is built again, a damaged block is found when it is read, and
// a start reads a few bytes for each 4 KiB. What another user can have written is not read: the
// arrays decide what is trained on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/train/data/integer_array.hpp"

namespace stoker::train {

struct ArrayKind {
  std::string name;  // "shuffle"
  std::uint64_t columns = 1;
};

// What to keep, and under which name: `class_name` ends the stem, `description` is one line.
struct ArrayPlan {
  std::string class_name;
  std::string description;
  std::vector<ArrayKind> arrays;
  // Whether what was read can be arrays of this plan. Empty: always.
  std::function<bool(const std::vector<IndexArray>&)> fits;
};

struct CachedArrays {
  std::vector<IndexArray> arrays;  // in the order of the plan
  bool from_cache = false;         // nothing was built
  std::optional<Error> problem;    // the cache is refused or could not be kept; the arrays are
                                   // good, and in memory
  std::string stem;                // path; "" = no folder
};

using BuildArrays = std::function<Result<std::vector<IntegerArray>>()>;

// From the folder, else built and put there: by one process at a time, the others wait for it (ten
// minutes at most). `folder` "" = no cache.
Result<CachedArrays> load_or_build_arrays(const std::string& folder, const ArrayPlan& plan,
                                          const BuildArrays& build);

// What was read from the folder is damaged: makes the next start build it again.
void forget(const CachedArrays& cached);
// Whether another start would find these arrays, too.
bool is_current(const CachedArrays& cached);

std::string md5_hex(std::string_view text);

}  // namespace stoker::train
