// Megatron's indexed dataset: PREFIX.bin holds the raw tokens, PREFIX.idx says where each sequence
// begins. One sequence a document. Layout of .idx, little endian: "MMIDIDX\0\0", u64 version 1, u8
// type, u64 sequences, u64 document boundaries, i32 lengths, i64 byte offsets, i64 boundaries (the
// first 0, the last = sequences); i8 modes may follow and are ignored.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/train/data/byte_file.hpp"
#include "worker/train/data/checked_file.hpp"

namespace stoker::train {

using TokenId = std::int32_t;

enum class TokenType : std::uint8_t { U8 = 1, I32 = 4, I64 = 5, U16 = 8 };  // Megatron's codes
std::uint64_t width_of(TokenType type);                                     // bytes
// What Megatron's preprocessor writes: u16 below 65500 entries, else i32.
TokenType token_type_for(std::uint64_t vocabulary);

class IndexedDatasetWriter {
 public:
  static Result<IndexedDatasetWriter> create(const std::string& prefix, TokenType type);
  // Appends tokens to the open document. Error: a token that the type cannot hold.
  Status add(std::span<const TokenId> tokens);
  // Ends the document. Error: more than 2^31-1 tokens in it.
  Status end_document();
  // Puts .bin, then .idx in place. At least one document must have been ended.
  Status commit();
  [[nodiscard]] std::uint64_t documents() const { return lengths_.size(); }
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }

 private:
  IndexedDatasetWriter(ByteWriter bin, std::string prefix, TokenType type)
      : bin_(std::move(bin)), prefix_(std::move(prefix)), type_(type) {}

  ByteWriter bin_;
  std::string prefix_;
  TokenType type_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::byte> scratch_;
  std::uint64_t open_tokens_ = 0;
  std::uint64_t tokens_ = 0;
};

class IndexedDataset {
 public:
  // Checks everything in .idx against itself and against the size of .bin before anything is used.
  // Of .idx nothing stays in memory but the hashes of its blocks (checked_file.hpp).
  static Result<IndexedDataset> open(const std::string& prefix);

  [[nodiscard]] std::uint64_t sequences() const { return sequences_; }
  // Tokens of a sequence. Error: .idx cannot be read, or is another one than was opened.
  Result<std::int32_t> length(std::uint64_t sequence) const;
  // Of all sequences: 4 bytes of memory each.
  Result<std::vector<std::int32_t>> lengths() const;
  [[nodiscard]] TokenType type() const { return type_; }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  // XXH3-64 of .idx and the size of .bin: names this content in caches and checkpoints.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

  // Tokens [offset, offset + out.size()) of a sequence. Errors: as of length(); a range that does
  // not lie inside; .bin cannot be read. Thread-safe.
  Status read(std::uint64_t sequence, std::uint64_t offset, std::span<TokenId> out) const;

 private:
  IndexedDataset(CheckedFile idx, ByteFile bin, std::string prefix)
      : idx_(std::move(idx)), bin_(std::move(bin)), prefix_(std::move(prefix)) {}
  Status parse();
  Status check_places() const;
  Status check_boundaries(std::uint64_t boundaries) const;

  CheckedFile idx_;
  ByteFile bin_;
  std::string prefix_;
  TokenType type_ = TokenType::U16;
  std::uint64_t sequences_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace stoker::train
