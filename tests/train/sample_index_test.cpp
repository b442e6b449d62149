// numpy's shuffle and Megatron's sample index against goldens made with real numpy
// (golden/make_sample_index_goldens.py).
#include "worker/train/data/sample_index.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "worker/train/data/blend.hpp"
#include "worker/train/data/numpy_random.hpp"
#include "worker/train/data/sampler.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

std::vector<int> shuffled(NumpyRandom& random, int n) {
  std::vector<int> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  random.shuffle(std::span(values));
  return values;
}

std::vector<std::int64_t> numbers(const std::string& line, const std::string& name) {
  std::istringstream in(line);
  std::string word;
  in >> word;
  REQUIRE(word == name);
  std::vector<std::int64_t> out;
  for (std::int64_t v = 0; in >> v;) out.push_back(v);
  return out;
}

std::vector<std::int64_t> values_of(const IntegerArray& array) {
  std::vector<std::int64_t> out;
  for (std::uint64_t i = 0; i < array.size(); ++i) out.push_back(array[i]);
  return out;
}

std::string golden_path() {
  return STOKER_SOURCE_DIR "/tests/train/golden/sample_index_goldens.txt";
}

}  // namespace

TEST_CASE("numpy shuffle: seeds 1234 and 42 -> numpy's order, also on the same stream") {
  NumpyRandom a(1234);
  CHECK(shuffled(a, 10) == std::vector{7, 2, 9, 1, 0, 8, 4, 5, 6, 3});
  CHECK(shuffled(a, 10) == std::vector{7, 3, 5, 1, 4, 8, 0, 2, 6, 9});
  NumpyRandom b(42);
  CHECK(shuffled(b, 10) == std::vector{8, 1, 5, 0, 7, 2, 9, 4, 3, 6});
  NumpyRandom c(2024);
  const auto big = shuffled(c, 70000);
  CHECK(big[0] == 58020);
  CHECK(big[69999] == 7816);
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 70000; ++i) sum += big[static_cast<std::size_t>(i)] * i % 1000003;
  CHECK(sum == 34958731927);
}

TEST_CASE("sample index: small cases in both thresholds -> numpy's arrays") {
  std::ifstream in(golden_path());
  REQUIRE(in.good());
  std::string head;
  int cases = 0;
  while (std::getline(in, head)) {
    SampleIndexSpec spec;
    unsigned separate = 0;
    REQUIRE(std::sscanf(head.c_str(),
                        "case samples=%lu sequence=%lu seed=%u threshold=%lf separate=%u",
                        &spec.samples, &spec.sequence, &spec.seed, &spec.last_epoch_threshold,
                        &separate) == 5);
    std::string lines[4];
    for (std::string& line : lines) REQUIRE(std::getline(in, line));
    std::vector<std::int32_t> lengths;
    for (const std::int64_t v : numbers(lines[0], "lengths"))
      lengths.push_back(static_cast<std::int32_t>(v));
    spec.end_document = lengths.size();
    const auto index = build_sample_index(spec, lengths);
    REQUIRE(index.has_value());
    INFO(head);
    CHECK(values_of(index->document_index) == numbers(lines[1], "documents"));
    CHECK(values_of(index->sample_index) == numbers(lines[2], "samples"));
    CHECK(values_of(index->shuffle_index) == numbers(lines[3], "shuffle"));
    ++cases;
  }
  CHECK(cases == 13);
}

TEST_CASE("sample index: nothing to sample -> one clear error") {
  const std::vector<std::int32_t> empty{0, 0};
  CHECK(build_sample_index({0, 2, 10, 4, 1, 0.8}, empty).error().what == "no tokens in this split");
  const std::vector<std::int32_t> one{1};
  CHECK(build_sample_index({0, 1, 1'000'000'000, 1024, 1, 0.8}, one)
            .error()
            .what.find("would have to be repeated") != std::string::npos);
}

TEST_CASE("split: 969,30,1 of 1000 and odd counts -> cumulative, rounded half to even") {
  const std::vector<double> weights{969, 30, 1};
  CHECK(split_range(weights, 0, 1000).end == 969);
  CHECK(split_range(weights, 1, 1000).first == 969);
  CHECK(split_range(weights, 1, 1000).end == 999);
  CHECK(split_range(weights, 2, 1000).end == 1000);
  CHECK(split_range(weights, 0, 1).end == 1);
  const std::vector<double> half{1, 1, 0};
  CHECK(split_range(half, 0, 5).end == 2);
  CHECK(split_range(half, 0, 7).end == 4);
}

TEST_CASE(
    "blend: weights 0.5 0.3 0.2 -> never more than a sample from the share, ties to the lowest") {
  const std::vector<double> weights{5, 3, 2};
  const Blend b = blend(weights, 1000);
  CHECK(b.used == std::vector<std::int64_t>{500, 300, 200});
  CHECK(std::vector<std::int16_t>(b.source.begin(), b.source.begin() + 10) ==
        std::vector<std::int16_t>{0, 1, 2, 0, 1, 0, 2, 0, 1, 0});
  std::vector<double> count(3);
  for (std::size_t k = 0; k < 1000; ++k) {
    CHECK(b.within[k] == static_cast<std::int64_t>(count[static_cast<std::size_t>(b.source[k])]));
    ++count[static_cast<std::size_t>(b.source[k])];
    CHECK(std::abs(count[0] - 0.5 * static_cast<double>(k + 1)) <= 1);
  }
  const std::vector<double> equal{1, 1};
  CHECK(blend(equal, 6).source == std::vector<std::int16_t>{0, 1, 0, 1, 0, 1});
  CHECK(samples_to_ask(0.5, 1000) == 503);
  CHECK(samples_to_ask(2. / 3, 1201) == 806);  // megatron-core 0.16.1; rounded up once: 805
}

TEST_CASE(
    "sampler: any micro-batch and rank count -> the union is the global batch, each sample once") {
  for (const std::uint64_t dp : {1u, 2u, 4u})
    for (const std::uint64_t micro : {1u, 2u, 3u}) {
      const BatchCut cut{1000, 24, micro, dp};
      std::vector<int> seen(24);
      for (std::uint64_t step = 0; step < cut.micro_steps(); ++step)
        for (std::uint64_t rank = 0; rank < dp; ++rank) {
          const SampleRange range = cut.samples(step, rank);
          for (std::uint64_t i = 0; i < range.count; ++i) ++seen.at(range.first + i - 1000);
        }
      CHECK(seen == std::vector<int>(24, 1));
    }
  CHECK(BatchCut{0, 8, 2, 2}.samples(1, 1) == SampleRange{6, 2});
}
