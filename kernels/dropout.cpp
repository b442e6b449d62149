// Dropout masks: sixteen Philox blocks side by side, in vector registers where there are some. The
// counter is {block, layer and site, sample low, sample high}; block = element / 4.
#include "kernels/dropout.hpp"

#include <algorithm>
#include <cmath>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "common/check.hpp"

namespace stoker::kernels {
namespace {

constexpr std::size_t kLanes = 16;
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

// words[4 * lane + j] = word j of block first_block + lane.
void draw_plain(const Draw& draw, std::uint32_t first_block, std::uint32_t* words) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const PhiloxCounter w =
        philox({first_block + lane, draw.place, draw.sample_low, draw.sample_high}, draw.key);
    std::copy(w.begin(), w.end(), words + 4 * lane);
  }
}

#if defined(__x86_64__)
struct Lanes {  // four blocks; of each 64-bit lane only the low half counts
  __m256i c0, c1, c2, c3;
};

[[gnu::target("avx2")]] __m256i low_halves(std::uint32_t value) {
  return _mm256_set1_epi64x(static_cast<long long>(value));
}

// The same with AVX2: every product is a 32 x 32 -> 64 multiplication of four lanes.
[[gnu::target("avx2")]] void draw_avx2(const Draw& draw, std::uint32_t first_block,
                                       std::uint32_t* words) {
  constexpr std::size_t kVectors = kLanes / 4;
  Lanes v[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) {
    const auto block = first_block + static_cast<std::uint32_t>(4 * i);
    v[i] = {_mm256_setr_epi64x(block, block + 1u, block + 2u, block + 3u), low_halves(draw.place),
            low_halves(draw.sample_low), low_halves(draw.sample_high)};
  }
  const __m256i m0 = low_halves(kPhiloxM0), m1 = low_halves(kPhiloxM1);
  PhiloxKey key = draw.key;
  for (int round = 0; round < 10; ++round) {
    const __m256i k0 = low_halves(key[0]), k1 = low_halves(key[1]);
    for (Lanes& x : v) {
      const __m256i p0 = _mm256_mul_epu32(x.c0, m0), p1 = _mm256_mul_epu32(x.c2, m1);
      x.c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), x.c1), k0);
      x.c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), x.c3), k1);
      x.c1 = p1;
      x.c3 = p0;
    }
    key[0] += kPhiloxW0;
    key[1] += kPhiloxW1;
  }
  for (std::size_t i = 0; i < kVectors; ++i) {
    const __m256i first = _mm256_blend_epi32(v[i].c0, _mm256_slli_epi64(v[i].c1, 32), 0xAA);
    const __m256i second = _mm256_blend_epi32(v[i].c2, _mm256_slli_epi64(v[i].c3, 32), 0xAA);
    const __m256i even = _mm256_unpacklo_epi64(first, second);
    const __m256i odd = _mm256_unpackhi_epi64(first, second);
    auto* out = reinterpret_cast<__m256i*>(words + 16 * i);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}
#endif

using DrawGroup = void (*)(const Draw&, std::uint32_t, std::uint32_t*);
DrawGroup choose_draw() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return draw_avx2;
#endif
  return draw_plain;
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
  static const DrawGroup draw_group = choose_draw();
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

DropoutDraw dropout_draw(const DropoutKey& key, double p) {
  return {philox_key(key.seed, PhiloxUse::Dropout), place(key),
          static_cast<std::uint32_t>(key.sample), static_cast<std::uint32_t>(key.sample >> 32),
          threshold_of(p)};
}

bool dropout_keeps(const DropoutKey& key, double p, std::uint64_t element) {
  const PhiloxCounter words =
      philox({static_cast<std::uint32_t>(element / 4), place(key),
              static_cast<std::uint32_t>(key.sample), static_cast<std::uint32_t>(key.sample >> 32)},
             philox_key(key.seed, PhiloxUse::Dropout));
  return words[element % 4] >= threshold_of(p);
}

}  // namespace stoker::kernels
