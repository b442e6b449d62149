// Shards of a checkpoint: what one rank holds of the flat state, as plain little-endian numbers
// behind a header of 64 bytes. Written aside, hashed while it is written, fsynced, renamed. The
// header says whose it is, so that a shard of another checkpoint is named as such.
//
//   0 "STOKERSH"   8 u32 version = 1   12 u32 generation   16 u64 iteration
//   24 u32 shard   28 u32 shards       32 zeros
#pragma once

#include <string>
#include <vector>

#include "common/ids.hpp"
#include "wire/checkpoint_manifest.hpp"
#include "worker/train/checkpoint/direct_writer.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

inline constexpr std::size_t kShardHeader = 64;

struct ShardId {
  Generation generation;
  Iteration iteration;
  std::uint32_t shard = 0, shards = 1;
};

std::string shard_name(const ShardId& id);  // "shard-00000-of-00002.bin"

// What a rank writes: the part `range` of its flat state, of that the parameters that count there,
// in the order in which they lie in the file: parameters, first, then second moments; inside a part
// in the table's order. Padding is not stored.
std::vector<wire::ManifestRange> shard_ranges(const ParameterTable& table, FlatRange range,
                                              Element element, const ShardId& id);

// Writes the shard into `directory`, which must be our own; what is there of it after an Error is
// for the caller to remove.
Result<wire::ManifestFile> write_shard(const std::string& directory, const FlatState& state,
                                       FlatRange range, const ShardId& id);

// The same for a snapshot in memory, into room for that much, with the copies of parameters that do
// not count here: other ranks' files are not at hand when it is loaded. From another device:
// complete after its finish_copies().
struct CopiedShard {
  std::uint64_t bytes = 0;
  std::string layout;  // a digest of which elements of which tensors these are
};
CopiedShard copied_shard(const FlatState& state, FlatRange range);
void copy_shard(char* to, const FlatState& state, FlatRange range, const ShardId& id);

// And back: `from` are the bytes of a copy with the same layout. Error: the device.
Status load_shard(const char* from, FlatState& state, FlatRange range);

// Reads what this rank holds of the ranges of one file straight into `state`, and nothing else. The
// ranges must tile the file, and their boxes fit their tensors (check_tensors). That the bytes are
// those that were saved is for the digest of the whole state to show.
Status read_shard(const std::string& directory, const wire::ManifestFile& file,
                  const std::vector<wire::ManifestRange>& ranges, FlatState& state);

}  // namespace stoker::train
