// The host is little endian (checked at compile time), so arrays are written and read as they lie
// in memory.
#include "worker/train/data/indexed_dataset.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include "common/hash.hpp"

namespace stoker::train {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kHeader = 34;
constexpr std::uint64_t kPiece = 1u << 20;  // bytes that are read at once

template <class T>
std::span<const std::byte> raw(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void narrow(std::span<const TokenId> tokens, std::vector<std::byte>& out) {
  out.resize(tokens.size() * sizeof(T));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const T value = static_cast<T>(tokens[i]);
    std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
Status widen(std::span<const std::byte> in, std::span<TokenId> out, const std::string& path) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const T value = load<T>(in.data() + i * sizeof(T));
    if (!std::in_range<TokenId>(value) || std::cmp_less(value, 0))
      return fail(fmt::format("token {} is not an id", value), path, "the file is damaged");
    out[i] = static_cast<TokenId>(value);
  }
  return ok();
}

template <class T>
Status read_entries(const CheckedFile& file, std::uint64_t at, std::span<T> out) {
  return file.read(at, std::as_writable_bytes(out));
}

Unexpected damaged(const std::string& path, std::string what) {
  return fail("corrupt index: " + std::move(what), path, "make it again with stoker-train prepare");
}

std::int64_t largest(TokenType type) {
  switch (type) {
    case TokenType::U8: return std::numeric_limits<std::uint8_t>::max();
    case TokenType::U16: return std::numeric_limits<std::uint16_t>::max();
    case TokenType::I32:
    case TokenType::I64: return std::numeric_limits<std::int32_t>::max();
  }
  return 0;
}

}  // namespace

std::uint64_t width_of(TokenType type) {
  switch (type) {
    case TokenType::U8: return 1;
    case TokenType::U16: return 2;
    case TokenType::I32: return 4;
    case TokenType::I64: return 8;
  }
  return 0;
}

TokenType token_type_for(std::uint64_t vocabulary) {
  return vocabulary < 65500 ? TokenType::U16 : TokenType::I32;
}

Result<IndexedDatasetWriter> IndexedDatasetWriter::create(const std::string& prefix,
                                                          TokenType type) {
  STOKER_TRY(bin, ByteWriter::create(prefix + ".bin"));
  return IndexedDatasetWriter(std::move(bin), prefix, type);
}

Status IndexedDatasetWriter::add(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens)
    if (token < 0 || token > largest(type_))
      return fail(fmt::format("token {} does not fit the token type", token), prefix_ + ".bin");
  switch (type_) {
    case TokenType::U8: narrow<std::uint8_t>(tokens, scratch_); break;
    case TokenType::U16: narrow<std::uint16_t>(tokens, scratch_); break;
    case TokenType::I32: narrow<std::int32_t>(tokens, scratch_); break;
    case TokenType::I64: narrow<std::int64_t>(tokens, scratch_); break;
  }
  open_tokens_ += tokens.size();
  tokens_ += tokens.size();
  return bin_.write(scratch_);
}

Status IndexedDatasetWriter::end_document() {
  if (open_tokens_ > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
    return fail("a document of more than 2147483647 tokens", prefix_ + ".bin",
                "split the text into smaller documents");
  lengths_.push_back(static_cast<std::int32_t>(open_tokens_));
  open_tokens_ = 0;
  return ok();
}

Status IndexedDatasetWriter::commit() {
  STOKER_CHECK(open_tokens_ == 0, "commit inside a document");
  if (lengths_.empty()) return fail("no document to write", prefix_);
  STOKER_TRY(idx, ByteWriter::create(prefix_ + ".idx"));
  const std::uint64_t n = lengths_.size();
  STOKER_TRY_STATUS(idx.write(std::as_bytes(std::span(kMagic))));
  STOKER_TRY_STATUS(idx.write(raw(std::uint64_t{1})));
  STOKER_TRY_STATUS(idx.write(raw(static_cast<std::uint8_t>(type_))));
  STOKER_TRY_STATUS(idx.write(raw(n)));
  STOKER_TRY_STATUS(idx.write(raw(n + 1)));
  STOKER_TRY_STATUS(idx.write(std::as_bytes(std::span(lengths_))));
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    STOKER_TRY_STATUS(idx.write(raw(offset)));
    offset += static_cast<std::int64_t>(length) * static_cast<std::int64_t>(width_of(type_));
  }
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(n); ++i)
    STOKER_TRY_STATUS(idx.write(raw(i)));
  STOKER_TRY_STATUS(bin_.commit());
  return idx.commit();
}

Result<IndexedDataset> IndexedDataset::open(const std::string& prefix) {
  const std::string path = prefix + ".idx";
  STOKER_TRY(file, ByteFile::open(path));
  STOKER_TRY(bin, ByteFile::open(prefix + ".bin"));
  if (file.size() < kHeader)
    return fail(fmt::format("{} bytes are less than the header of an index", file.size()), path);
  std::byte head[kMagic.size()];
  STOKER_TRY_STATUS(file.read(0, head));
  if (std::memcmp(head, kMagic.data(), kMagic.size()) != 0)
    return fail("this is no Megatron index: it does not begin with MMIDIDX", path,
                "make one with stoker-train prepare");
  Xxh3Stream hash;
  BlockHasher blocks;
  std::vector<std::byte> piece(std::min<std::uint64_t>(kPiece, file.size()));
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kPiece, file.size() - at));
    STOKER_TRY_STATUS(file.read(at, piece));
    hash.update(piece.data(), piece.size());
    blocks.update(piece);
  }
  const std::uint64_t bin_size = bin.size();
  hash.update(&bin_size, sizeof bin_size);
  STOKER_TRY(idx, CheckedFile::make(std::move(file), blocks.finish()));
  IndexedDataset data(std::move(idx), std::move(bin), prefix);
  data.fingerprint_ = hash.digest();
  STOKER_TRY_STATUS(data.parse());
  return data;
}

Status IndexedDataset::parse() {
  std::byte head[kHeader];
  STOKER_TRY_STATUS(idx_.read(0, head));
  const auto version = load<std::uint64_t>(head + 9);
  if (version != 1) return damaged(idx_.path(), fmt::format("version {} instead of 1", version));
  const auto code = std::to_integer<int>(head[17]);
  if (code != 1 && code != 4 && code != 5 && code != 8)
    return damaged(idx_.path(),
                   fmt::format("token type {}; known are 1 u8, 4 i32, 5 i64, 8 u16", code));
  type_ = static_cast<TokenType>(code);
  const auto n = load<std::uint64_t>(head + 18);
  const auto boundaries = load<std::uint64_t>(head + 26);
  const std::uint64_t room = idx_.size() - kHeader;
  if (n > room / 12 || boundaries > room / 8 || boundaries == 0 ||
      (room != 12 * n + 8 * boundaries && room != 13 * n + 8 * boundaries))
    return damaged(idx_.path(), fmt::format("{} sequences and {} boundaries do not make {} bytes",
                                            n, boundaries, idx_.size()));
  sequences_ = n;
  STOKER_TRY_STATUS(check_places());
  return check_boundaries(boundaries);
}

// Each sequence lies in .bin.
Status IndexedDataset::check_places() const {
  const std::uint64_t width = width_of(type_);
  std::vector<std::int32_t> lengths(std::min(sequences_, kPiece / 8));
  std::vector<std::int64_t> offsets(lengths.size());
  for (std::uint64_t first = 0; first < sequences_; first += lengths.size()) {
    lengths.resize(std::min<std::uint64_t>(lengths.size(), sequences_ - first));
    offsets.resize(lengths.size());
    STOKER_TRY_STATUS(read_entries(idx_, kHeader + 4 * first, std::span(lengths)));
    STOKER_TRY_STATUS(read_entries(idx_, kHeader + 4 * sequences_ + 8 * first, std::span(offsets)));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const bool good = lengths[i] >= 0 && offsets[i] >= 0 &&
                        static_cast<std::uint64_t>(offsets[i]) <= bin_.size() &&
                        static_cast<std::uint64_t>(lengths[i]) * width <=
                            bin_.size() - static_cast<std::uint64_t>(offsets[i]);
      if (!good)
        return damaged(
            idx_.path(),
            fmt::format("sequence {} ({} tokens at byte {}) lies outside {}.bin of {} bytes",
                        first + i, lengths[i], offsets[i], prefix_, bin_.size()));
    }
  }
  return ok();
}

// Documents follow each other, the last one ends with the last sequence.
Status IndexedDataset::check_boundaries(std::uint64_t boundaries) const {
  std::vector<std::int64_t> piece(std::min(boundaries, kPiece / 8));
  std::int64_t before = 0;
  for (std::uint64_t first = 0; first < boundaries; first += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), boundaries - first));
    STOKER_TRY_STATUS(read_entries(idx_, kHeader + 12 * sequences_ + 8 * first, std::span(piece)));
    for (std::size_t i = 0; i < piece.size(); ++i) {
      if ((first + i == 0 && piece[i] != 0) || piece[i] < before ||
          std::cmp_greater(piece[i], sequences_))
        return damaged(idx_.path(), fmt::format("document boundary {} is {}", first + i, piece[i]));
      before = piece[i];
    }
  }
  if (std::cmp_not_equal(before, sequences_))
    return damaged(idx_.path(),
                   fmt::format("the documents end at sequence {} of {}", before, sequences_));
  return ok();
}

Result<std::int32_t> IndexedDataset::length(std::uint64_t sequence) const {
  STOKER_CHECK(sequence < sequences_, "no such sequence");
  std::int32_t length = 0;
  STOKER_TRY_STATUS(read_entries(idx_, kHeader + 4 * sequence, std::span(&length, 1)));
  return length;
}

Result<std::vector<std::int32_t>> IndexedDataset::lengths() const {
  std::vector<std::int32_t> all(sequences_);
  STOKER_TRY_STATUS(read_entries(idx_, kHeader, std::span(all)));
  return all;
}

Status IndexedDataset::read(std::uint64_t sequence, std::uint64_t offset,
                            std::span<TokenId> out) const {
  STOKER_TRY(tokens, length(sequence));
  std::int64_t begin = 0;
  STOKER_TRY_STATUS(
      read_entries(idx_, kHeader + 4 * sequences_ + 8 * sequence, std::span(&begin, 1)));
  if (std::cmp_greater(offset, tokens) ||
      std::cmp_greater(out.size(), static_cast<std::uint64_t>(tokens) - offset))
    return fail(fmt::format("tokens {} to {} of sequence {} are asked for, which has {}", offset,
                            offset + out.size(), sequence, tokens),
                idx_.path());
  const std::uint64_t width = width_of(type_);
  std::vector<std::byte> buffer(out.size() * width);
  STOKER_TRY_STATUS(bin_.read(static_cast<std::uint64_t>(begin) + offset * width, buffer));
  switch (type_) {
    case TokenType::U8: return widen<std::uint8_t>(buffer, out, bin_.path());
    case TokenType::U16: return widen<std::uint16_t>(buffer, out, bin_.path());
    case TokenType::I32: return widen<std::int32_t>(buffer, out, bin_.path());
    case TokenType::I64: return widen<std::int64_t>(buffer, out, bin_.path());
  }
  return ok();
}

}  // namespace stoker::train
