// Reading a sample follows Megatron's GPTDataset: from one pair of the sample index to the next,
// both ends included.
#include "worker/train/data/training_data.hpp"

#include <bit>
#include <fmt/format.h>

#include "common/hash.hpp"

namespace stoker::train {

std::vector<SamplePiece> GptDataset::pieces(std::uint64_t sample) const {
  const SampleIndex& index = cached_.index;
  const auto k = static_cast<std::uint64_t>(index.shuffle_index[sample]);
  const auto at = [&](std::uint64_t i) {
    return static_cast<std::uint64_t>(index.sample_index[i]);
  };
  const std::uint64_t first = at(2 * k);
  const std::uint64_t first_offset = at(2 * k + 1);
  const std::uint64_t last = at(2 * k + 2);
  const std::uint64_t last_offset = at(2 * k + 3);
  std::vector<SamplePiece> pieces;
  for (std::uint64_t position = first; position <= last; ++position) {
    const auto document = static_cast<std::uint64_t>(index.document_index[position]);
    const std::uint64_t begin = position == first ? first_offset : 0;
    const auto end =
        position == last ? last_offset + 1 : static_cast<std::uint64_t>(data_.length(document));
    if (end > begin) pieces.push_back({document, begin, end - begin});
  }
  return pieces;
}

Result<std::vector<TokenId>> GptDataset::tokens(std::uint64_t sample) const {
  std::vector<TokenId> out(sequence_ + 1);
  std::uint64_t filled = 0;
  for (const SamplePiece& piece : pieces(sample)) {
    STOKER_CHECK(filled + piece.length <= out.size(), "a sample longer than its sequence");
    STOKER_TRY_STATUS(
        data_.read(piece.document, piece.offset, std::span(out).subspan(filled, piece.length)));
    filled += piece.length;
  }
  STOKER_CHECK(filled == out.size(), "a sample shorter than its sequence");
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
    all.blend_ = blend(weights, request.samples);
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (all.blend_->used[i] > all.sets_[i].samples())
        return fail(fmt::format("the blend draws {} samples but there are {}", all.blend_->used[i],
                                all.sets_[i].samples()),
                    sources[i].prefix);
  }
  return all;
}

std::uint32_t TrainingData::source_of(std::uint64_t id) const {
  STOKER_CHECK(id < samples_, "a sample beyond the run");
  return blend_ ? static_cast<std::uint32_t>(blend_->source[id]) : 0;
}

std::uint64_t TrainingData::index_within(std::uint64_t id) const {
  STOKER_CHECK(id < samples_, "a sample beyond the run");
  return blend_ ? blend_->within[id] : id;
}

Result<Sample> TrainingData::sample(std::uint64_t id) const {
  Sample sample;
  sample.source = source_of(id);
  const GptDataset& set = sets_[sample.source];
  STOKER_TRY(tokens, set.tokens(index_within(id)));
  for (const TokenId token : tokens)
    if (static_cast<std::uint64_t>(token) >= vocabulary_)
      return fail(
          fmt::format("token {} in sample {}, but model.vocabulary is {}", token, id, vocabulary_),
          set.indexed().prefix(), "set model.vocabulary to that of the tokenizer");
  sample.tokens = std::move(tokens);
  return sample;
}

std::map<std::uint32_t, std::uint64_t> TrainingData::source_counts(std::uint64_t first,
                                                                   std::uint64_t last) const {
  std::map<std::uint32_t, std::uint64_t> counts;
  for (std::uint64_t id = first; id <= last; ++id) ++counts[source_of(id)];
  return counts;
}

std::vector<Error> TrainingData::problems() const {
  std::vector<Error> all;
  for (const GptDataset& set : sets_)
    if (set.cached().problem) all.push_back(*set.cached().problem);
  return all;
}

}  // namespace stoker::train
