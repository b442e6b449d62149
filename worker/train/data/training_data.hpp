// The training's data as one function: global sample number -> tokens. Everything about the data
// position is a single integer, consumed samples; what a rank reads follows from it (sampler.hpp).
// Opened alike on every rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recipe/train_config.hpp"
#include "worker/train/data/index_cache.hpp"

namespace stoker::train {

enum class Split { Train = 0, Validation = 1, Test = 2 };

// A part of a document in a sample: how a loss spike is traced to its text.
struct SamplePiece {
  std::uint64_t document = 0;
  std::uint64_t offset = 0;  // in tokens
  std::uint64_t length = 0;
};

struct Sample {
  std::vector<TokenId> tokens;  // sequence + 1: inputs are [0, sequence), labels [1, sequence + 1)
  std::uint32_t source = 0;     // which entry of data.train
};

// One data set with its sample index.
class GptDataset {
 public:
  GptDataset(IndexedDataset data, CachedIndex cached, std::uint64_t sequence)
      : data_(std::move(data)), cached_(std::move(cached)), sequence_(sequence) {}

  [[nodiscard]] std::uint64_t samples() const { return cached_.samples(); }
  // What sample < samples() is made of; sequence + 1 tokens in all. Errors: the index cannot be
  // read or is damaged; the next start builds it again. Thread-safe.
  Result<std::vector<SamplePiece>> pieces(std::uint64_t sample) const;
  // The same, and .bin or .idx cannot be read.
  Result<std::vector<TokenId>> tokens(std::uint64_t sample) const;
  [[nodiscard]] const IndexedDataset& indexed() const { return data_; }
  [[nodiscard]] const CachedIndex& cached() const { return cached_; }

 private:
  struct Place {
    std::vector<std::int64_t> documents;
    std::int64_t first_offset = 0, last_offset = 0;  // tokens of the first and of the last one
  };
  Result<Place> place_of(std::uint64_t sample) const;

  IndexedDataset data_;
  CachedIndex cached_;
  std::uint64_t sequence_;
};

struct DataRequest {
  recipe::DataConfig data;
  std::uint64_t sequence = 0;
  std::uint64_t vocabulary = 0;  // every token must be below it
  std::uint64_t samples = 0;     // of the whole run, not of what is left: the order depends on it
  Split split = Split::Train;
};

class TrainingData {
 public:
  // Errors: missing or damaged files, a split without tokens, a blend that draws more than a set
  // has.
  static Result<TrainingData> open(const DataRequest& request);

  [[nodiscard]] std::uint64_t samples() const { return samples_; }
  [[nodiscard]] std::size_t sources() const { return sets_.size(); }
  [[nodiscard]] const GptDataset& source(std::size_t i) const { return sets_.at(i); }

  // Global sample `id` in consumed order; id < samples(). Error: an unreadable or damaged file, a
  // token outside the vocabulary. Thread-safe.
  Result<Sample> sample(std::uint64_t id) const;
  // Which data set it is of, and which sample of that. Error: the cached blend cannot be read or is
  // damaged; the next start builds it again.
  Result<std::uint32_t> source_of(std::uint64_t id) const;
  Result<std::uint64_t> index_within(std::uint64_t id, std::uint32_t source) const;
  // Samples of [first, last] by data set.
  Result<std::map<std::uint32_t, std::uint64_t>> source_counts(std::uint64_t first,
                                                               std::uint64_t last) const;
  // Names the order of the data: equal digests give equal samples. For the checkpoint and the
  // resume audit.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  // Index caches that are refused or could not be written: worth a line, no reason to stop.
  [[nodiscard]] std::vector<Error> problems() const;
  // False: a cached index was found damaged since it was opened; open() builds it again.
  [[nodiscard]] bool is_current() const;

 private:
  TrainingData() = default;

  Status read_sources(std::uint64_t first, std::span<std::int64_t> out) const;
  [[nodiscard]] Unexpected damaged_blend(std::string what) const;

  std::vector<GptDataset> sets_;
  std::optional<CachedBlend> blend_;  // of more than one set
  std::uint64_t samples_ = 0;
  std::uint64_t vocabulary_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace stoker::train
