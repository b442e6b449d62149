// Reading a sample follows Megatron's GPTDataset: from one pair of the sample index to the next,
// both ends included.
#include "worker/train/data/training_data.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/hash.hpp"
#include "worker/train/data/blend.hpp"

namespace stoker::train {

namespace {

constexpr const char* kBuiltAgain = "the index is built again at the next start";

}  // namespace

Result<std::vector<SamplePiece>> GptDataset::pieces(std::uint64_t sample) const {
  auto place = place_of(sample);
  if (!place) {
    forget(cached_.cache);
    Error error = place.error();
    if (error.hint.empty()) error.hint = kBuiltAgain;
    return fail(error);
  }
  std::vector<SamplePiece> pieces;
  std::uint64_t left = sequence_ + 1;
  const auto damaged = [&] {
    forget(cached_.cache);
    return fail(fmt::format("sample {} leads out of the data", sample), cached_.cache.stem,
                kBuiltAgain);
  };
  for (std::size_t i = 0; i < place->documents.size(); ++i) {
    const std::int64_t document = place->documents[i];
    if (document < 0 || std::cmp_greater_equal(document, data_.sequences())) return damaged();
    STOKER_TRY(length, data_.length(static_cast<std::uint64_t>(document)));
    const bool last = i + 1 == place->documents.size();
    if (last && place->last_offset >= length) return damaged();
    const std::int64_t begin = i == 0 ? place->first_offset : 0;
    const std::int64_t end = last ? place->last_offset + 1 : length;
    if (begin > end || std::cmp_greater(end - begin, left)) return damaged();
    left -= static_cast<std::uint64_t>(end - begin);
    if (end > begin)
      pieces.push_back({static_cast<std::uint64_t>(document), static_cast<std::uint64_t>(begin),
                        static_cast<std::uint64_t>(end - begin)});
  }
  if (left != 0) return damaged();
  return pieces;
}

// What the three arrays say about a sample, none of it looked up in the data yet.
Result<GptDataset::Place> GptDataset::place_of(std::uint64_t sample) const {
  const auto damaged = [&] {
    return fail(fmt::format("sample {} leads out of the index", sample), cached_.cache.stem,
                kBuiltAgain);
  };
  STOKER_TRY(k, cached_.shuffle_index().at(sample));
  if (k < 0 || std::cmp_greater_equal(k, samples())) return damaged();
  std::int64_t pair[4];  // position in the document index and offset, of this sample and the next
  STOKER_TRY_STATUS(cached_.sample_index().read(2 * static_cast<std::uint64_t>(k), pair));
  const auto [first, first_offset, last, last_offset] = pair;
  // Each document but the ends has a token at least, or is empty: a sample of more is no sample.
  constexpr std::int64_t kMostDocuments = 1 << 24;
  if (first < 0 || last < first || last - first > kMostDocuments || first_offset < 0 ||
      last_offset < 0 || std::cmp_greater_equal(last, cached_.document_index().size()))
    return damaged();
  Place place{std::vector<std::int64_t>(static_cast<std::size_t>(last - first) + 1), first_offset,
              last_offset};
  STOKER_TRY_STATUS(
      cached_.document_index().read(static_cast<std::uint64_t>(first), place.documents));
  return place;
}

Result<std::vector<TokenId>> GptDataset::tokens(std::uint64_t sample) const {
  std::vector<TokenId> out(sequence_ + 1);
  std::uint64_t filled = 0;
  STOKER_TRY(all, pieces(sample));
  for (const SamplePiece& piece : all) {
    STOKER_TRY_STATUS(
        data_.read(piece.document, piece.offset, std::span(out).subspan(filled, piece.length)));
    filled += piece.length;
  }
  return out;
}

Result<TrainingData> TrainingData::open(const DataRequest& request) {
  TrainingData all;
  const auto& sources = request.data.train;
  STOKER_CHECK(!sources.empty() && sources.size() < 255, "1 to 254 data sets");
  std::vector<double> weights;
  double sum = 0;
  for (const recipe::DataSource& source : sources) {
    weights.push_back(source.weight);
    sum += source.weight;
  }
  std::string identity;
  for (const recipe::DataSource& source : sources) {
    STOKER_TRY(data, IndexedDataset::open(source.prefix));
    const SplitRange range =
        split_range(request.data.split, static_cast<std::size_t>(request.split), data.sequences());
    SampleIndexSpec spec;
    spec.first_document = range.first;
    spec.end_document = range.end;
    spec.samples = sources.size() == 1 ? request.samples
                                       : samples_to_ask(source.weight / sum, request.samples);
    spec.sequence = request.sequence;
    spec.seed = request.data.seed;
    spec.last_epoch_threshold = request.data.last_epoch_threshold;
    auto cached = load_or_build_index(request.data.cache, data, spec);
    if (!cached) {
      Error error = cached.error();
      if (error.object.empty()) error.object = source.prefix;
      return fail(error);
    }
    identity += fmt::format("{} {:a}\n", cached->description, source.weight);
    all.sets_.emplace_back(std::move(data), *std::move(cached), request.sequence);
  }
  all.samples_ = request.samples;
  all.vocabulary_ = request.vocabulary;
  all.digest_ = xxh3_64(identity);
  if (sources.size() > 1) {
    STOKER_TRY(blended, load_or_build_blend(request.data.cache, weights, request.samples));
    all.blend_.emplace(std::move(blended));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      STOKER_TRY(used, all.blend_->used().at(i));
      if (std::cmp_greater(used, all.sets_[i].samples()))
        return fail(fmt::format("the blend draws {} samples but there are {}", used,
                                all.sets_[i].samples()),
                    sources[i].prefix);
    }
  }
  return all;
}

Status TrainingData::read_sources(std::uint64_t first, std::span<std::int64_t> out) const {
  STOKER_CHECK(first + out.size() <= samples_, "a sample beyond the run");
  if (!blend_) {
    std::fill(out.begin(), out.end(), 0);
    return ok();
  }
  Status read = blend_->source().read(first, out);
  for (std::size_t i = 0; read && i < out.size(); ++i)
    if (out[i] < 0 || std::cmp_greater_equal(out[i], sets_.size()))
      read = damaged_blend(fmt::format("sample {} is of data set {}", first + i, out[i]));
  if (!read) forget(blend_->cache);
  return read;
}

Unexpected TrainingData::damaged_blend(std::string what) const {
  return fail(std::move(what), blend_->cache.stem, "the blend is made again at the next start");
}

Result<std::uint32_t> TrainingData::source_of(std::uint64_t id) const {
  std::int64_t source = 0;
  STOKER_TRY_STATUS(read_sources(id, std::span(&source, 1)));
  return static_cast<std::uint32_t>(source);
}

Result<std::uint64_t> TrainingData::index_within(std::uint64_t id, std::uint32_t source) const {
  STOKER_CHECK(id < samples_, "a sample beyond the run");
  if (!blend_) return id;
  auto within = blend_->within().at(id);
  if (within && (*within < 0 || std::cmp_greater_equal(*within, sets_[source].samples())))
    within =
        damaged_blend(fmt::format("sample {} is sample {} of data set {}", id, *within, source));
  if (within) return static_cast<std::uint64_t>(*within);
  forget(blend_->cache);
  return fail(within.error());
}

Result<Sample> TrainingData::sample(std::uint64_t id) const {
  Sample sample;
  STOKER_TRY(source, source_of(id));
  STOKER_TRY(within, index_within(id, source));
  sample.source = source;
  const GptDataset& set = sets_[source];
  STOKER_TRY(tokens, set.tokens(within));
  for (const TokenId token : tokens)
    if (static_cast<std::uint64_t>(token) >= vocabulary_)
      return fail(
          fmt::format("token {} in sample {}, but model.vocabulary is {}", token, id, vocabulary_),
          set.indexed().prefix(), "set model.vocabulary to that of the tokenizer");
  sample.tokens = std::move(tokens);
  return sample;
}

Result<std::map<std::uint32_t, std::uint64_t>> TrainingData::source_counts(
    std::uint64_t first, std::uint64_t last) const {
  constexpr std::uint64_t kAtOnce = 4096;
  std::map<std::uint32_t, std::uint64_t> counts;
  std::vector<std::int64_t> sources;
  for (std::uint64_t id = first; id <= last; id += sources.size()) {
    sources.resize(std::min(kAtOnce, last - id + 1));
    STOKER_TRY_STATUS(read_sources(id, sources));
    for (const std::int64_t source : sources) ++counts[static_cast<std::uint32_t>(source)];
  }
  return counts;
}

std::vector<Error> TrainingData::problems() const {
  std::vector<Error> all;
  for (const GptDataset& set : sets_)
    if (set.cached().cache.problem) all.push_back(*set.cached().cache.problem);
  if (blend_ && blend_->cache.problem) all.push_back(*blend_->cache.problem);
  return all;
}

bool TrainingData::is_current() const {
  const auto current = [](const CachedArrays& cached) { return train::is_current(cached); };
  return (!blend_ || current(blend_->cache)) &&
         std::all_of(sets_.begin(), sets_.end(),
                     [&](const GptDataset& set) { return current(set.cached().cache); });
}

}  // namespace stoker::train
