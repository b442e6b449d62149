// manifest.json of a checkpoint directory: written last, so its presence says that everything else
// was synced before. Numbers are what the training must find again on resume; `digest` covers all
// parameters and optimizer state as logical, unpadded tensors and does not depend on how they were
// sharded. Reads versions N and N-1. Version 2: ranges may be of a box of the tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "wire/tensor_box.hpp"

namespace stoker::wire {

inline constexpr int kManifestVersion = 2;
inline constexpr const char* kManifestName = "manifest.json";

struct ManifestFile {
  std::string name;  // plain name inside the directory; never a path
  std::uint64_t size = 0;
  std::string xxh3;  // 16 hex digits over the whole file
  STOKER_FIELDS(ManifestFile, name, size, xxh3)
};

// A contiguous range of one logical tensor, or of a box of it, in one shard file. Offsets are in
// elements of the flattened tensor, or of the flattened box.
struct ManifestRange {
  std::string tensor;       // "blocks.3.attention.qkv.weight"
  std::string part;         // "parameter" | "moment1" | "moment2"
  std::string dtype;        // "f32" | "f64"
  std::uint64_t begin = 0;  // offset of the first element
  std::uint64_t count = 0;
  std::string file;
  std::uint64_t file_offset = 0;   // bytes
  std::optional<TensorBox> box{};  // null: the whole tensor
  STOKER_FIELDS(ManifestRange, tensor, part, dtype, begin, count, file, file_offset, box)
};

struct ManifestTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  STOKER_FIELDS(ManifestTensor, name, shape)
};

struct Manifest {
  int version = kManifestVersion;
  std::string run;
  Generation generation;
  Iteration iteration;
  std::uint64_t consumed_samples = 0;
  std::uint64_t consumed_tokens = 0;
  double learning_rate = 0;        // of the last step, as printed by "%.17g" it is exact
  std::uint64_t parameters = 0;    // number of scalars
  std::string digest;              // 32 hex digits or more
  bool without_optimizer = false;  // a copy for inference: parameters alone, also in `digest`
  std::string build;               // version and build id of the writer
  std::map<std::string, std::string>
      numerics;  // library, dtype, threads, CPU capability: what "exact" depends on
  std::map<std::string, std::uint64_t> mesh;  // tp, pp, dp
  Json training;  // what the resume audit compares besides: seeds, data digest, batch, lr settings
  std::vector<ManifestTensor> tensors;
  std::vector<ManifestRange> ranges;
  std::vector<ManifestFile> files;
  WallTime saved_at;
  double save_seconds = 0;
  STOKER_FIELDS(Manifest, version, run, generation, iteration, consumed_samples, consumed_tokens,
                learning_rate, parameters, digest, without_optimizer, build, numerics, mesh,
                training, tensors, ranges, files, saved_at, save_seconds)
};

}  // namespace stoker::wire

STOKER_JSON_ONCE(stoker::wire::Manifest)
