// CheckedFile: a large file of which small parts are read. The XXH3-64 of each block of 4 KiB is
// known, 8 bytes in memory for each, so damage is found in what is read, and opening reads nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "worker/train/data/byte_file.hpp"

namespace stoker::train {

constexpr std::uint64_t kCheckedBlock = 4096;
// Blocks of a file of so many bytes; the last one may be short.
constexpr std::uint64_t checked_blocks(std::uint64_t bytes) {
  return (bytes + kCheckedBlock - 1) / kCheckedBlock;
}

// Hashes the blocks of what passes through update().
class BlockHasher {
 public:
  void update(std::span<const std::byte> bytes);
  // One hash a block, the short last one included. Call once, at the end.
  std::vector<std::uint64_t> finish();

 private:
  std::vector<std::uint64_t> hashes_;
  std::array<std::byte, kCheckedBlock> open_;
  std::size_t filled_ = 0;
};

class CheckedFile {
 public:
  // Error: not one hash for each block of the file.
  static Result<CheckedFile> make(ByteFile file, std::vector<std::uint64_t> hashes);

  [[nodiscard]] std::uint64_t size() const { return file_.size(); }
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  // Fills `out` from `offset`. Errors: it cannot be read, ends before, or a block has another hash.
  // Thread-safe.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  CheckedFile(ByteFile file, std::vector<std::uint64_t> hashes)
      : file_(std::move(file)), hashes_(std::move(hashes)) {}

  ByteFile file_;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace stoker::train
