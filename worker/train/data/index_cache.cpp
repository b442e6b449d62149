// See the header. Nothing here is trusted: what is read must be a file of our own user, match its
// checksum and have the shape that the spec asks for.
#include "worker/train/data/index_cache.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "worker/train/data/byte_file.hpp"

namespace stoker::train {
namespace {

std::string checksum(const IntegerArray& array) {
  const auto bytes = array.bytes();
  return hex64(xxh3_64({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

std::string stamp(const std::string& description, const SampleIndex& index) {
  return fmt::format("{}\ndocument_index {}\nsample_index {}\nshuffle_index {}\n", description,
                     checksum(index.document_index), checksum(index.sample_index),
                     checksum(index.shuffle_index));
}

Result<IntegerArray> read_array(const std::string& path, std::uint64_t columns) {
  STOKER_TRY(file, ByteFile::open_own(path));
  return read_npy(file, columns);
}

Result<SampleIndex> read_index(const std::string& stem, const std::string& description,
                               const SampleIndexSpec& spec, std::span<const std::int32_t> lengths) {
  constexpr std::uint64_t kLongest = 1u << 20;
  const std::string path = stem + "-description.txt";
  STOKER_TRY(file, ByteFile::open_own(path));
  if (file.size() > kLongest) return fail("too long for a description", path);
  std::string noted(file.size(), '\0');
  STOKER_TRY_STATUS(file.read(0, std::as_writable_bytes(std::span(noted))));
  SampleIndex index;
  STOKER_TRY(documents, read_array(stem + "-document_index.npy", 1));
  STOKER_TRY(samples, read_array(stem + "-sample_index.npy", 2));
  STOKER_TRY(shuffle, read_array(stem + "-shuffle_index.npy", 1));
  index.document_index = std::move(documents);
  index.sample_index = std::move(samples);
  index.shuffle_index = std::move(shuffle);
  if (noted != stamp(description, index)) return fail("does not match its description", stem);
  STOKER_TRY_STATUS(check_sample_index(spec, lengths, index));
  return index;
}

Status write_index(const std::string& folder, const std::string& stem,
                   const std::string& description, const SampleIndex& index) {
  STOKER_TRY_STATUS(os::make_directories(folder));
  STOKER_TRY_STATUS(write_npy(stem + "-document_index.npy", index.document_index, 1));
  STOKER_TRY_STATUS(write_npy(stem + "-sample_index.npy", index.sample_index, 2));
  STOKER_TRY_STATUS(write_npy(stem + "-shuffle_index.npy", index.shuffle_index, 1));
  return os::replace_file(stem + "-description.txt", stamp(description, index),
                          os::Durability::Synced);
}

}  // namespace

std::string md5_hex(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int done = EVP_Digest(text.data(), text.size(), digest, &size, EVP_md5(), nullptr);
  STOKER_CHECK(done == 1, "MD5 is not available");
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string describe_index(const IndexedDataset& data, const SampleIndexSpec& spec) {
  Json json;
  json["class"] = "GPTDataset";
  json["version"] = 1;
  json["prefix"] = data.prefix();
  json["fingerprint"] = hex64(data.fingerprint());
  json["documents"] = {spec.first_document, spec.end_document};
  json["num_samples"] = spec.samples;
  json["sequence_length"] = spec.sequence;
  json["random_seed"] = spec.seed;
  json["last_epoch_threshold"] = spec.last_epoch_threshold;
  return dump_json(json);
}

Result<CachedIndex> load_or_build_index(const std::string& folder, const IndexedDataset& data,
                                        const SampleIndexSpec& spec) {
  CachedIndex cached;
  cached.description = describe_index(data, spec);
  const std::string stem = folder + "/" + md5_hex(cached.description) + "-GPTDataset";
  if (!folder.empty()) {
    auto found = read_index(stem, cached.description, spec, data.lengths());
    if (found) {
      cached.index = *std::move(found);
      cached.from_cache = true;
      return cached;
    }
    if (os::is_refusal(found.error())) {
      cached.problem = found.error();
      cached.problem->hint = "the index is built in memory; name a data.cache that is yours alone";
    }
  }
  STOKER_TRY(built, build_sample_index(spec, data.lengths()));
  cached.index = std::move(built);
  if (!folder.empty() && !cached.problem)
    if (const Status written = write_index(folder, stem, cached.description, cached.index);
        !written)
      cached.problem = written.error();
  return cached;
}

}  // namespace stoker::train
