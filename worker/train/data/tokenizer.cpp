// The byte tokenizer, and the files in which a data set keeps its tokenizer.
#include "worker/train/data/tokenizer.hpp"

#include <fmt/format.h>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "common/os/files.hpp"

namespace stoker::train {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<TokenId>& out) override {
    out.reserve(out.size() + text.size());
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  }
  [[nodiscard]] std::string text_of(TokenId id) const override {
    if (id >= 0 && id < 256) return std::string(1, static_cast<char>(id));
    return id == 256 ? "<|endoftext|>" : fmt::format("<|{}|>", id);
  }
  [[nodiscard]] std::uint64_t vocabulary() const override { return 257; }
};

constexpr std::size_t kMaxMergesBytes = 64u << 20;

struct TokenizerFile {
  std::string kind;  // "bytes" or "bpe"
  std::uint64_t vocabulary = 0;
  std::string merges_xxh3;
  STOKER_FIELDS(TokenizerFile, kind, vocabulary, merges_xxh3)
};

}  // namespace

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += text_of(id);
  return text;
}

std::string Tokenizer::merges_text() const {
  return format_merges({});
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

Status save_tokenizer(const std::string& prefix, const Tokenizer& tokenizer, const Merges& merges) {
  TokenizerFile file{merges.empty() ? "bytes" : "bpe", tokenizer.vocabulary(), ""};
  if (!merges.empty()) {
    const std::string text = format_merges(merges);
    file.merges_xxh3 = hex64(xxh3_64(text));
    STOKER_TRY_STATUS(os::replace_file(prefix + ".merges.txt", text, os::Durability::Synced));
  }
  return os::replace_file(prefix + ".tokenizer.json", to_json_text(file) + "\n",
                          os::Durability::Synced);
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& prefix) {
  const std::string path = prefix + ".tokenizer.json";
  STOKER_TRY(text, os::read_file(path, 1u << 16));
  STOKER_TRY(file, from_json_text<TokenizerFile>(text, path));
  if (file.kind == "bytes") return make_byte_tokenizer();
  if (file.kind != "bpe") return fail(fmt::format("unknown tokenizer \"{}\"", file.kind), path);
  const std::string merges_path = prefix + ".merges.txt";
  STOKER_TRY(merges_text, os::read_file(merges_path, kMaxMergesBytes));
  if (hex64(xxh3_64(merges_text)) != file.merges_xxh3)
    return fail("these are not the merges that the data was made with", merges_path);
  STOKER_TRY(merges, parse_merges(merges_text, merges_path));
  return make_bpe_tokenizer(merges);
}

}  // namespace stoker::train
