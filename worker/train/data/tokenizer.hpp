// Tokenizers: text to token ids and back. Byte-level: id = byte, end of document = 256. GPT-2 BPE:
// ids 0-255 are the bytes in GPT-2's order, then one id a merge in the order of the merges file,
// then <|endoftext|>. Decoding an encoded text gives the same bytes, for any input.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "worker/train/data/indexed_dataset.hpp"

namespace stoker::train {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Appends the ids of `text`. The text may be cut before at safe_cut() places only.
  virtual void encode(std::string_view text, std::vector<TokenId>& out) = 0;
  // The bytes of an id; "<|endoftext|>" for end_of_document(), "<|id|>" for an unknown one.
  [[nodiscard]] virtual std::string text_of(TokenId id) const = 0;
  [[nodiscard]] virtual std::uint64_t vocabulary() const = 0;  // ids are below it
  // The text of its merges file: the header alone where it has none.
  [[nodiscard]] virtual std::string merges_text() const;
  [[nodiscard]] TokenId end_of_document() const { return static_cast<TokenId>(vocabulary()) - 1; }
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const;
};

std::unique_ptr<Tokenizer> make_byte_tokenizer();

// A pair of ids that becomes the next free id: the rank is the place in the list.
using Merges = std::vector<std::pair<TokenId, TokenId>>;

// The text of a merges file: an optional "#version" line, then "left right" a line in GPT-2's
// printable alphabet. Errors name the line: an unknown symbol, a pair twice.
Result<Merges> parse_merges(std::string_view text, const std::string& object);
std::string format_merges(const Merges& merges);
// Bytes in GPT-2's printable alphabet, as its files have them.
std::string printable_symbols(std::string_view bytes);
std::unique_ptr<Tokenizer> make_bpe_tokenizer(const Merges& merges);

// Beside PREFIX.bin: PREFIX.tokenizer.json (kind, vocabulary, the XXH3 of the merges) and for BPE
// PREFIX.merges.txt, so that samples can be turned back into text. `merges` is empty for the byte
// tokenizer.
Status save_tokenizer(const std::string& prefix, const Tokenizer& tokenizer, const Merges& merges);
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& prefix);

}  // namespace stoker::train
