// Philox, dropout and initialisation: known answers, and independence from how a range is cut.
#include "kernels/philox.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <vector>

#include "kernels/dropout.hpp"
#include "kernels/normal_init.hpp"

using namespace stoker::kernels;

TEST_CASE("philox: the paper's vectors -> the paper's answers") {
  // Random123 kat_vectors, philox4x32 10.
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("dropout_mask: a range -> the reference, element by element") {
  const DropoutKey key{42, (std::uint64_t{7} << 32) + 5, 3, DropoutSite::MlpOut};
  std::vector<float> mask(1003);
  dropout_mask(key, 0.3, 8, mask.size(), mask.data());
  for (std::size_t i = 0; i < mask.size(); ++i)
    CHECK(mask[i] == (dropout_keeps(key, 0.3, 8 + i) ? static_cast<float>(1 / 0.7) : 0.0f));
}

TEST_CASE("dropout_mask: three types and a cut range -> the same decisions") {
  const DropoutKey key{1, 2, 0, DropoutSite::Attention};
  std::vector<float> whole(256), cut(256);
  std::vector<double> wide(256);
  std::vector<Bf16> narrow(256);
  dropout_mask(key, 0.1, 0, 256, whole.data());
  dropout_mask(key, 0.1, 0, 100, cut.data());
  dropout_mask(key, 0.1, 100, 156, cut.data() + 100);
  dropout_mask(key, 0.1, 0, 256, wide.data());
  dropout_mask(key, 0.1, 0, 256, narrow.data());
  CHECK(whole == cut);
  for (std::size_t i = 0; i < 256; ++i) {
    CHECK((whole[i] == 0) == (wide[i] == 0));
    CHECK((whole[i] == 0) == (narrow[i].bits == 0));
  }
}

TEST_CASE("dropout_mask: another sample, layer or site -> another mask, the right share") {
  const auto draw = [](DropoutKey key) {
    std::vector<float> mask(4096);
    dropout_mask(key, 0.25, 0, mask.size(), mask.data());
    return mask;
  };
  const auto base = draw({1, 10, 0, DropoutSite::Embedding});
  CHECK(base != draw({2, 10, 0, DropoutSite::Embedding}));
  CHECK(base != draw({1, 11, 0, DropoutSite::Embedding}));
  CHECK(base != draw({1, 10, 1, DropoutSite::Embedding}));
  CHECK(base != draw({1, 10, 0, DropoutSite::MlpOut}));
  const auto dropped = std::count(base.begin(), base.end(), 0.0f);
  CHECK(dropped > 900);
  CHECK(dropped < 1150);
}

TEST_CASE("normal_init: any cut of a parameter -> the same weights") {
  std::vector<double> whole(1001), cut(1001);
  normal_init(9, "embedding.word", 0.02, 0, 1001, whole.data());
  normal_init(9, "embedding.word", 0.02, 0, 333, cut.data());
  normal_init(9, "embedding.word", 0.02, 333, 668, cut.data() + 333);
  CHECK(whole == cut);
  std::vector<double> other(1001);
  normal_init(9, "embedding.position", 0.02, 0, 1001, other.data());
  CHECK(whole != other);
  double squares = 0;
  for (const double x : whole) squares += x * x;
  CHECK(std::sqrt(squares / 1001) == doctest::Approx(0.02).epsilon(0.1));
}
