// Training of a small BPE vocabulary from text: the most frequent pair of neighbouring symbols
// inside words is merged, again and again; ties go to the pair of the smallest ids. Deterministic:
// the same texts in any order give the same merges.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "worker/train/data/tokenizer.hpp"

namespace stoker::train {

class BpeTrainer {
 public:
  // Counts the words of a text (cut at safe_cut() places only).
  void add(std::string_view text);
  // Merges until the vocabulary (256 bytes, merges, end of document) has `vocabulary` entries, or
  // no pair occurs twice. `progress` receives the number of merges now and then; may be empty.
  [[nodiscard]] Merges train(std::uint64_t vocabulary,
                             const std::function<void(std::uint64_t)>& progress = {}) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> words_;
};

}  // namespace stoker::train
