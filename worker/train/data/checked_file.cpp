#include "worker/train/data/checked_file.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "common/hash.hpp"

namespace stoker::train {
namespace {

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return xxh3_64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

void BlockHasher::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (filled_ == 0 && bytes.size() >= kCheckedBlock) {
      hashes_.push_back(hash_of(bytes.first(kCheckedBlock)));
      bytes = bytes.subspan(kCheckedBlock);
      continue;
    }
    const std::size_t n = std::min(bytes.size(), open_.size() - filled_);
    std::memcpy(open_.data() + filled_, bytes.data(), n);
    filled_ += n;
    bytes = bytes.subspan(n);
    if (filled_ == open_.size()) {
      hashes_.push_back(hash_of(open_));
      filled_ = 0;
    }
  }
}

std::vector<std::uint64_t> BlockHasher::finish() {
  if (filled_ > 0) hashes_.push_back(hash_of(std::span(open_).first(filled_)));
  filled_ = 0;
  return std::move(hashes_);
}

Result<CheckedFile> CheckedFile::make(ByteFile file, std::vector<std::uint64_t> hashes) {
  if (hashes.size() != checked_blocks(file.size()))
    return fail(fmt::format("{} bytes do not make the {} blocks that were expected", file.size(),
                            hashes.size()),
                file.path());
  return CheckedFile(std::move(file), std::move(hashes));
}

Status CheckedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset)
    return fail(fmt::format("ends at byte {}, shorter than expected", size()), path());
  std::array<std::byte, kCheckedBlock> buffer;
  while (!out.empty()) {
    const std::uint64_t block = offset / kCheckedBlock;
    const std::uint64_t begin = block * kCheckedBlock;
    const auto content =
        std::span(buffer).first(std::min<std::uint64_t>(kCheckedBlock, size() - begin));
    STOKER_TRY_STATUS(file_.read(begin, content));
    if (hash_of(content) != hashes_[block])
      return fail(fmt::format("damaged: bytes {} to {} are not those that were checked before",
                              begin, begin + content.size() - 1),
                  path());
    const auto wanted = content.subspan(offset - begin);
    const std::size_t n = std::min(wanted.size(), out.size());
    std::memcpy(out.data(), wanted.data(), n);
    offset += n;
    out = out.subspan(n);
  }
  return ok();
}

}  // namespace stoker::train
