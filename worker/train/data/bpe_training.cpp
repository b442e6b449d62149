// Pair counts are kept up to date word by word: after a merge only the words that held the pair are
// visited.
#include "worker/train/data/bpe_training.hpp"

#include <queue>
#include <set>
#include <vector>

#include "worker/train/data/word_split.hpp"

namespace stoker::train {
namespace {

using Pair = std::pair<TokenId, TokenId>;

struct Word {
  std::vector<TokenId> symbols;
  std::int64_t count = 0;
};

struct Candidate {
  std::int64_t count = 0;
  Pair pair;
  // The largest on top: more often first, then the smaller ids.
  bool operator<(const Candidate& o) const {
    return count != o.count ? count < o.count : pair > o.pair;
  }
};

class Merger {
 public:
  explicit Merger(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t w = 0; w < words_.size(); ++w) count(w, 1);
    for (const auto& [pair, n] : counts_) queue_.push({n, pair});
    changed_.clear();
  }

  // The next pair, or false when none occurs twice.
  bool next(Pair& best) {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      if (counts_[top.pair] != top.count)
        continue;  // outdated; the right count is in the queue too
      if (top.count < 2) return false;
      best = top.pair;
      return true;
    }
    return false;
  }

  void merge(const Pair& pair, TokenId id) {
    const std::set<std::size_t> where = std::move(words_of_[pair]);
    words_of_.erase(pair);
    for (const std::size_t w : where) {
      count(w, -1);
      replace(words_[w].symbols, pair, id);
      count(w, 1);
    }
    counts_.erase(pair);
    for (const Pair& p : changed_)
      if (const auto found = counts_.find(p); found != counts_.end() && found->second > 0)
        queue_.push({found->second, p});
    changed_.clear();
  }

 private:
  void count(std::size_t w, std::int64_t sign) {
    const std::vector<TokenId>& s = words_[w].symbols;
    for (std::size_t i = 0; i + 1 < s.size(); ++i) {
      const Pair pair{s[i], s[i + 1]};
      counts_[pair] += sign * words_[w].count;
      changed_.insert(pair);
      if (sign > 0) words_of_[pair].insert(w);
    }
  }

  static void replace(std::vector<TokenId>& s, const Pair& pair, TokenId id) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < s.size(); ++i, ++out) {
      const bool hit = i + 1 < s.size() && s[i] == pair.first && s[i + 1] == pair.second;
      s[out] = hit ? id : s[i];
      if (hit) ++i;
    }
    s.resize(out);
  }

  std::vector<Word> words_;
  std::map<Pair, std::int64_t> counts_;
  std::map<Pair, std::set<std::size_t>> words_of_;  // may name words that lost the pair since
  std::set<Pair> changed_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void BpeTrainer::add(std::string_view text) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, first_word(text));
    text.remove_prefix(word.size());
    const auto known = words_.find(word);
    if (known != words_.end())
      ++known->second;
    else
      words_.emplace(word, 1);
  }
}

Merges BpeTrainer::train(std::uint64_t vocabulary,
                         const std::function<void(std::uint64_t)>& progress) const {
  constexpr std::uint64_t kFixed = 257;  // the bytes and the end of document
  const auto bytes = make_bpe_tokenizer({});
  std::vector<Word> words;
  for (const auto& [text, count] : words_) {
    Word word;
    bytes->encode(text, word.symbols);
    word.count = static_cast<std::int64_t>(count);
    words.push_back(std::move(word));
  }
  Merger merger(std::move(words));
  Merges merges;
  Pair pair;
  while (merges.size() + kFixed < vocabulary && merger.next(pair)) {
    merger.merge(pair, static_cast<TokenId>(256 + merges.size()));
    merges.push_back(pair);
    if (progress && merges.size() % 500 == 0) progress(merges.size());
  }
  return merges;
}

}  // namespace stoker::train
