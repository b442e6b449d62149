// Byte-pair encoding. A word is a list of symbols; the pair with the lowest rank is merged first,
// leftmost first, through a heap, so a hostile word of a million letters costs n log n. Words
// repeat (Zipf), so a cache does most of the work.
#include <array>
#include <fmt/format.h>
#include <queue>
#include <unordered_map>

#include "worker/train/data/tokenizer.hpp"
#include "worker/train/data/word_split.hpp"

namespace stoker::train {
namespace {

constexpr int kBytes = 256;

// GPT-2's byte order: the printable bytes first, then the rest; each has a printable character in
// merges files.
struct ByteAlphabet {
  std::array<TokenId, kBytes> id_of_byte{};
  std::array<unsigned char, kBytes> byte_of_id{};
  std::array<char32_t, kBytes> character_of_byte{};

  ByteAlphabet() {
    TokenId next = 0;
    const auto printable = [](int b) {
      return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
    };
    for (const bool pass : {true, false})
      for (int b = 0; b < kBytes; ++b) {
        if (printable(b) != pass) continue;
        const auto i = static_cast<std::size_t>(b);
        character_of_byte[i] = pass ? static_cast<char32_t>(b)
                                    : static_cast<char32_t>(256 + next - 188);  // 188 are printable
        byte_of_id[static_cast<std::size_t>(next)] = static_cast<unsigned char>(b);
        id_of_byte[i] = next++;
      }
  }
};

const ByteAlphabet& alphabet() {
  static const ByteAlphabet kAlphabet;
  return kAlphabet;
}

std::string printable_of(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const char32_t code = alphabet().character_of_byte[static_cast<unsigned char>(c)];
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else {
      out += static_cast<char>(0xC0 | code >> 6);  // all below U+0800
      out += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return out;
}

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// The bytes of every id: the bytes themselves, then the merges.
std::vector<std::string> spellings(const Merges& merges) {
  std::vector<std::string> all;
  for (const unsigned char byte : alphabet().byte_of_id)
    all.emplace_back(1, static_cast<char>(byte));
  for (const auto& [left, right] : merges)
    all.push_back(all[static_cast<std::size_t>(left)] + all[static_cast<std::size_t>(right)]);
  return all;
}

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(const Merges& merges) : merges_(merges), spellings_(spellings(merges)) {
    rank_.reserve(merges.size());
    for (std::size_t i = 0; i < merges.size(); ++i)
      rank_.try_emplace(pair_key(merges[i].first, merges[i].second), static_cast<TokenId>(i));
  }

  void encode(std::string_view text, std::vector<TokenId>& out) override {
    while (!text.empty()) {
      const std::string_view word = text.substr(0, first_word(text));
      text.remove_prefix(word.size());
      encode_word(word, out);
    }
  }

  [[nodiscard]] std::string text_of(TokenId id) const override {
    if (id >= 0 && static_cast<std::size_t>(id) < spellings_.size())
      return spellings_[static_cast<std::size_t>(id)];
    return id == end_of_document() ? "<|endoftext|>" : fmt::format("<|{}|>", id);
  }

  [[nodiscard]] std::uint64_t vocabulary() const override { return spellings_.size() + 1; }
  [[nodiscard]] std::string merges_text() const override { return format_merges(merges_); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  struct Symbol {
    TokenId id = 0;
    std::int64_t previous = -1;
    std::int64_t next = -1;
    bool live = true;
  };
  struct Candidate {
    TokenId rank = 0;
    std::int64_t left = 0;  // its position orders equal ranks
    TokenId left_id = 0;    // what stood there; outdated candidates are dropped
    TokenId right_id = 0;
    bool operator>(const Candidate& o) const {
      return rank != o.rank ? rank > o.rank : left > o.left;
    }
  };

  void encode_word(std::string_view word, std::vector<TokenId>& out) {
    constexpr std::size_t kCachedWords = 1u << 18;
    constexpr std::size_t kCachedLength = 64;
    const auto known = cache_.find(word);
    if (known != cache_.end()) {
      out.insert(out.end(), known->second.begin(), known->second.end());
      return;
    }
    const std::vector<TokenId> ids = merge(word);
    out.insert(out.end(), ids.begin(), ids.end());
    if (word.size() > kCachedLength) return;
    if (cache_.size() >= kCachedWords) cache_.clear();
    cache_.emplace(word, ids);
  }

  [[nodiscard]] std::vector<TokenId> merge(std::string_view word) const {
    std::vector<Symbol> symbols(word.size());
    for (std::size_t i = 0; i < word.size(); ++i)
      symbols[i] = {alphabet().id_of_byte[static_cast<unsigned char>(word[i])],
                    static_cast<std::int64_t>(i) - 1,
                    i + 1 < word.size() ? static_cast<std::int64_t>(i) + 1 : -1, true};
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    const auto offer = [&](std::int64_t left) {
      if (left < 0) return;
      const Symbol& a = symbols[static_cast<std::size_t>(left)];
      if (a.next < 0) return;
      const TokenId right = symbols[static_cast<std::size_t>(a.next)].id;
      const auto found = rank_.find(pair_key(a.id, right));
      if (found != rank_.end()) queue.push({found->second, left, a.id, right});
    };
    for (std::size_t i = 0; i < word.size(); ++i) offer(static_cast<std::int64_t>(i));
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& a = symbols[static_cast<std::size_t>(best.left)];
      if (!a.live || a.id != best.left_id || a.next < 0) continue;
      Symbol& b = symbols[static_cast<std::size_t>(a.next)];
      if (b.id != best.right_id) continue;
      a.id = kBytes + best.rank;
      b.live = false;
      a.next = b.next;
      if (a.next >= 0) symbols[static_cast<std::size_t>(a.next)].previous = best.left;
      offer(a.previous);
      offer(best.left);
    }
    std::vector<TokenId> ids;
    for (const Symbol& symbol : symbols)
      if (symbol.live) ids.push_back(symbol.id);
    return ids;
  }

  Merges merges_;
  std::vector<std::string> spellings_;
  std::unordered_map<std::uint64_t, TokenId> rank_;  // pair -> place in the merges; never iterated
  std::unordered_map<std::string, std::vector<TokenId>, Hash, std::equal_to<>> cache_;
};

}  // namespace

Result<Merges> parse_merges(std::string_view text, const std::string& object) {
  constexpr std::size_t kMaxMerges = 2'000'000;
  std::unordered_map<std::string, TokenId> id_of;  // printable spelling -> id
  std::unordered_map<std::uint64_t, std::size_t> seen;
  for (TokenId id = 0; id < kBytes; ++id) {
    const auto byte = static_cast<char>(alphabet().byte_of_id[static_cast<std::size_t>(id)]);
    id_of[printable_of({&byte, 1})] = id;
  }
  Merges merges;
  std::size_t number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const auto bad = [&](std::string_view what) {
      return fail(fmt::format("line {}: {}", number, what), object,
                  "give a merges file as GPT-2's: two symbols a line");
    };
    const auto space = line.find(' ');
    if (space == std::string_view::npos) return bad("not two symbols");
    const std::string left_text(line.substr(0, space));
    const std::string right_text(line.substr(space + 1));
    const auto left = id_of.find(left_text);
    const auto right = id_of.find(right_text);
    if (left == id_of.end() || right == id_of.end())
      return bad("a symbol that no line before it makes");
    const auto pair = std::pair(left->second, right->second);
    if (!seen.try_emplace(pair_key(pair.first, pair.second), number).second)
      return bad("a pair that is there already");
    if (merges.size() >= kMaxMerges) return bad("too many merges");
    id_of.try_emplace(left_text + right_text, kBytes + static_cast<TokenId>(merges.size()));
    merges.push_back(pair);
  }
  if (merges.empty()) return fail("no merges", object, "give a merges file as GPT-2's");
  return merges;
}

std::string format_merges(const Merges& merges) {
  const std::vector<std::string> all = spellings(merges);
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : merges)
    text += printable_of(all[static_cast<std::size_t>(left)]) + " " +
            printable_of(all[static_cast<std::size_t>(right)]) + "\n";
  return text;
}

std::string printable_symbols(std::string_view bytes) {
  return printable_of(bytes);
}

std::unique_ptr<Tokenizer> make_bpe_tokenizer(const Merges& merges) {
  return std::make_unique<BpeTokenizer>(merges);
}

}  // namespace stoker::train
