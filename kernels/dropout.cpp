// Dropout masks: eight Philox blocks side by side, which the compiler turns into vector code. The
// counter is {block, layer and site, sample low, sample high}; block = element / 4.
#include "kernels/dropout.hpp"

#include <algorithm>
#include <cmath>

#include "common/check.hpp"
#include "kernels/clones.hpp"
#include "kernels/philox.hpp"

namespace stoker::kernels {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kGroup = 4 * kLanes;  // elements made at once

std::uint32_t threshold_of(double p) {
  STOKER_CHECK(p >= 0 && p < 1, "dropout probability outside [0, 1)");
  return static_cast<std::uint32_t>(std::min(std::floor(p * 4294967296.0), 4294967295.0));
}

std::uint32_t place(const DropoutKey& key) {
  return (key.layer << 8) | static_cast<std::uint32_t>(key.site);
}

struct Draw {
  PhiloxKey key;
  std::uint32_t place, sample_low, sample_high;
};

// words[j * kLanes + lane] = word j of block first_block + lane.
STOKER_CLONES void draw_group(const Draw& draw, std::uint32_t first_block, std::uint32_t* words) {
  std::uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) {
    c0[i] = first_block + static_cast<std::uint32_t>(i);
    c1[i] = draw.place;
    c2[i] = draw.sample_low;
    c3[i] = draw.sample_high;
  }
  std::uint32_t k0 = draw.key[0], k1 = draw.key[1];
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * c0[i];
      const std::uint64_t p1 = std::uint64_t{kPhiloxM1} * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<std::uint32_t>(p1);
      c3[i] = static_cast<std::uint32_t>(p0);
    }
    k0 += kPhiloxW0;
    k1 += kPhiloxW1;
  }
  for (std::size_t i = 0; i < kLanes; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

template <class T>
void fill(const DropoutKey& key, double p, std::uint64_t first, std::size_t count, T kept,
          T* mask) {
  STOKER_CHECK(first % 4 == 0 && first + count <= (std::uint64_t{1} << 34), "dropout range");
  STOKER_CHECK(key.layer < (1u << 24), "dropout layer");
  const std::uint32_t threshold = threshold_of(p);
  const Draw draw{philox_key(key.seed, PhiloxUse::Dropout), place(key),
                  static_cast<std::uint32_t>(key.sample),
                  static_cast<std::uint32_t>(key.sample >> 32)};
  std::uint32_t words[kGroup];
  for (std::size_t done = 0; done < count; done += kGroup) {
    draw_group(draw, static_cast<std::uint32_t>((first + done) / 4), words);
    const std::size_t n = std::min(kGroup, count - done);
    for (std::size_t i = 0; i < n; ++i) mask[done + i] = words[i] >= threshold ? kept : T{};
  }
}

}  // namespace

void dropout_mask(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                  float* mask) {
  fill(key, p, first, count, static_cast<float>(1.0 / (1.0 - p)), mask);
}

void dropout_mask(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                  double* mask) {
  fill(key, p, first, count, 1.0 / (1.0 - p), mask);
}

void dropout_mask(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                  Bf16* mask) {
  fill(key, p, first, count, to_bf16(static_cast<float>(1.0 / (1.0 - p))), mask);
}

bool dropout_keeps(const DropoutKey& key, double p, std::uint64_t element) {
  const PhiloxCounter words =
      philox({static_cast<std::uint32_t>(element / 4), place(key),
              static_cast<std::uint32_t>(key.sample), static_cast<std::uint32_t>(key.sample >> 32)},
             philox_key(key.seed, PhiloxUse::Dropout));
  return words[element % 4] >= threshold_of(p);
}

}  // namespace stoker::kernels
