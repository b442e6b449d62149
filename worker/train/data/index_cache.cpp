#include "worker/train/data/index_cache.hpp"

#include <fmt/format.h>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/train/data/blend.hpp"

namespace stoker::train {
namespace {

std::string describe_blend(std::span<const double> weights, std::uint64_t samples) {
  Json json;
  json["class"] = "BlendedDataset";
  json["version"] = 1;
  json["num_samples"] = samples;
  json["weights"] = Json::array();
  for (const double w : weights) json["weights"].push_back(fmt::format("{:a}", w));
  return dump_json(json);
}

}  // namespace

std::string describe_index(const IndexedDataset& data, const SampleIndexSpec& spec) {
  Json json;
  json["class"] = "GPTDataset";
  json["version"] = 1;
  json["prefix"] = data.prefix();
  json["fingerprint"] = hex64(data.fingerprint());
  json["documents"] = {spec.first_document, spec.end_document};
  json["num_samples"] = spec.samples;
  json["sequence_length"] = spec.sequence;
  json["random_seed"] = spec.seed;
  json["last_epoch_threshold"] = spec.last_epoch_threshold;
  return dump_json(json);
}

Result<CachedIndex> load_or_build_index(const std::string& folder, const IndexedDataset& data,
                                        const SampleIndexSpec& spec) {
  const ArrayPlan plan{"GPTDataset",
                       describe_index(data, spec),
                       {{"document", 1}, {"sample", 2}, {"shuffle", 1}},
                       [&](const std::vector<IndexArray>& arrays) {
                         const std::uint64_t samples = arrays[2].size();
                         return samples >= spec.samples && arrays[1].size() == 2 * (samples + 1);
                       }};
  STOKER_TRY(cache, load_or_build_arrays(folder, plan, [&]() -> Result<std::vector<IntegerArray>> {
               STOKER_TRY(lengths, data.lengths());
               STOKER_TRY(built, build_sample_index(spec, lengths));
               std::vector<IntegerArray> arrays;
               arrays.push_back(std::move(built.document_index));
               arrays.push_back(std::move(built.sample_index));
               arrays.push_back(std::move(built.shuffle_index));
               return arrays;
             }));
  return CachedIndex{std::move(cache), plan.description};
}

Result<CachedBlend> load_or_build_blend(const std::string& folder, std::span<const double> weights,
                                        std::uint64_t samples) {
  const ArrayPlan plan{"BlendedDataset",
                       describe_blend(weights, samples),
                       {{"dataset", 1}, {"dataset_sample", 1}, {"used", 1}},
                       [&](const std::vector<IndexArray>& arrays) {
                         std::vector<std::int64_t> used(weights.size());
                         return arrays[0].size() == samples && arrays[1].size() == samples &&
                                arrays[2].size() == used.size() && arrays[2].read(0, used);
                       }};
  STOKER_TRY(cache, load_or_build_arrays(folder, plan, [&]() -> Result<std::vector<IntegerArray>> {
               Blend built = blend(weights, samples);
               std::vector<IntegerArray> arrays;
               arrays.emplace_back(std::move(built.source));
               arrays.emplace_back(std::move(built.within));
               arrays.emplace_back(std::move(built.used));
               return arrays;
             }));
  return CachedBlend{std::move(cache)};
}

}  // namespace stoker::train
