// The host is little endian (checked at compile time), so arrays are written and read as they lie
// in memory.
#include "worker/train/data/indexed_dataset.hpp"

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
  std::vector<std::byte> index(file.size());
  STOKER_TRY_STATUS(file.read(0, index));
  IndexedDataset data(std::move(bin), prefix);
  STOKER_TRY_STATUS(data.parse(index, path));
  Xxh3Stream hash;
  hash.update(index.data(), index.size());
  const std::uint64_t bin_size = data.bin_.size();
  hash.update(&bin_size, sizeof bin_size);
  data.fingerprint_ = hash.digest();
  return data;
}

Status IndexedDataset::parse(const std::vector<std::byte>& index, const std::string& path) {
  const auto damaged = [&](std::string what) {
    return fail("corrupt index: " + std::move(what), path,
                "make it again with stoker-train prepare");
  };
  const auto version = load<std::uint64_t>(index.data() + 9);
  if (version != 1) return damaged(fmt::format("version {} instead of 1", version));
  const auto code = std::to_integer<int>(index[17]);
  if (code != 1 && code != 4 && code != 5 && code != 8)
    return damaged(fmt::format("token type {}; known are 1 u8, 4 i32, 5 i64, 8 u16", code));
  type_ = static_cast<TokenType>(code);
  const auto n = load<std::uint64_t>(index.data() + 18);
  const auto boundaries = load<std::uint64_t>(index.data() + 26);
  const std::uint64_t room = index.size() - kHeader;
  if (n > room / 12 || boundaries > room / 8 || boundaries == 0 ||
      (room != 12 * n + 8 * boundaries && room != 13 * n + 8 * boundaries))
    return damaged(fmt::format("{} sequences and {} boundaries do not make {} bytes", n, boundaries,
                               index.size()));
  lengths_.resize(n);
  offsets_.resize(n);
  const std::byte* at = index.data() + kHeader;
  if (n > 0) std::memcpy(lengths_.data(), at, 4 * n);
  if (n > 0) std::memcpy(offsets_.data(), at + 4 * n, 8 * n);
  const std::uint64_t width = width_of(type_);
  for (std::uint64_t i = 0; i < n; ++i) {
    const bool good = lengths_[i] >= 0 && offsets_[i] >= 0 &&
                      static_cast<std::uint64_t>(offsets_[i]) <= bin_.size() &&
                      static_cast<std::uint64_t>(lengths_[i]) * width <=
                          bin_.size() - static_cast<std::uint64_t>(offsets_[i]);
    if (!good)
      return damaged(
          fmt::format("sequence {} ({} tokens at byte {}) lies outside {}.bin of {} bytes", i,
                      lengths_[i], offsets_[i], prefix_, bin_.size()));
  }
  const std::byte* documents = at + 12 * n;
  std::int64_t before = 0;
  for (std::uint64_t i = 0; i < boundaries; ++i) {
    const auto boundary = load<std::int64_t>(documents + 8 * i);
    if ((i == 0 && boundary != 0) || boundary < before || std::cmp_greater(boundary, n))
      return damaged(fmt::format("document boundary {} is {}", i, boundary));
    before = boundary;
  }
  if (std::cmp_not_equal(before, n))
    return damaged(fmt::format("the documents end at sequence {} of {}", before, n));
  return ok();
}

Status IndexedDataset::read(std::uint64_t sequence, std::uint64_t offset,
                            std::span<TokenId> out) const {
  STOKER_CHECK(sequence < lengths_.size() &&
                   offset + out.size() <= static_cast<std::uint64_t>(lengths_[sequence]),
               "read outside a sequence");
  const std::uint64_t width = width_of(type_);
  std::vector<std::byte> buffer(out.size() * width);
  STOKER_TRY_STATUS(
      bin_.read(static_cast<std::uint64_t>(offsets_[sequence]) + offset * width, buffer));
  switch (type_) {
    case TokenType::U8: return widen<std::uint8_t>(buffer, out, bin_.path());
    case TokenType::U16: return widen<std::uint16_t>(buffer, out, bin_.path());
    case TokenType::I32: return widen<std::int32_t>(buffer, out, bin_.path());
    case TokenType::I64: return widen<std::int64_t>(buffer, out, bin_.path());
  }
  return ok();
}

}  // namespace stoker::train
