// A1 = -A0, and one more on the diagonal: a round adds row m of B_j to row m of tile j, through
// sums that use every bit of the factors. After 8,192 rounds no sum is above 2^20, and none is 0.
#include "worker/agent/gpu/burn.hpp"

#include <bit>

#include "worker/agent/embedded_data.hpp"

namespace stoker::agent {
namespace {

constexpr int kTiles = 8, kRows = 16, kInner = 16, kColumns = 8, kSums = 16;

// A generator of its own: the same numbers in every build.
class Numbers {
 public:
  int next() {  // -127 ... 127, never 0
    state_ = state_ * 1664525u + 1013904223u;
    const int value = static_cast<int>((state_ >> 20) % 127u) + 1;
    return (state_ & 0x80000u) != 0 ? -value : value;
  }

 private:
  std::uint32_t state_ = 20240229;
};

std::uint32_t bits_of(int value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

// Two neighbours of a row of A, or of a column of B, as bf16: exact up to 256.
std::uint32_t pair(int low, int high) {
  return (bits_of(low) >> 16) | (bits_of(high) & 0xffff0000u);
}

std::string_view ptx_of(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.name == name) return file.text;
  return {};
}

std::uint32_t sum_bits(int step) {
  return bits_of(step * static_cast<int>(kBurnRounds));
}

// Words of a lane in the order that mma.m16n8k16 wants: "Matrix Fragments" in the PTX manual.
Burn make_bf16() {
  Numbers numbers;
  int a[kRows][kInner], b[kTiles][kInner][kColumns];
  for (auto& row : a)
    for (int& value : row) value = numbers.next();
  for (auto& tile : b)
    for (auto& row : tile)
      for (int& value : row) value = numbers.next();
  const auto second = [&](int m, int k) { return -a[m][k] + (m == k ? 1 : 0); };
  Burn burn{"gpu_gemm_bf16", ptx_of("worker/agent/gpu/burn_bf16.ptx"), {}, {}, 0};
  burn.operations = 2.0 * kTiles * 2 * kRows * kColumns * kInner / 32 * kBurnRounds;
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, at = lane % 4 * 2;
    for (const int k : {at, at + 8})
      for (const int m : {group, group + 8}) burn.in.push_back(pair(a[m][k], a[m][k + 1]));
    for (const int k : {at, at + 8})
      for (const int m : {group, group + 8})
        burn.in.push_back(pair(second(m, k), second(m, k + 1)));
    for (const auto& tile : b)
      for (const int k : {at, at + 8}) burn.in.push_back(pair(tile[k][group], tile[k + 1][group]));
    std::uint32_t hash = 0;
    for (const auto& tile : b)
      for (const int m : {group, group + 8})
        for (const int n : {at, at + 1}) hash = hash * 31 + sum_bits(tile[m][n]);
    burn.right[static_cast<std::size_t>(lane)] = hash;
  }
  return burn;
}

Burn make_f32() {
  Numbers numbers;
  Burn burn{"gpu_gemm_f32", ptx_of("worker/agent/gpu/burn_f32.ptx"), {}, {}, 0};
  burn.operations = 2.0 * 2 * kSums * kBurnRounds;
  for (int lane = 0; lane < 32; ++lane) {
    const int a = numbers.next();
    for (const int value : {a, 1 - a, 0, 0}) burn.in.push_back(bits_of(value));
    std::uint32_t hash = 0;
    for (int j = 0; j < kSums; ++j) {
      const int b = numbers.next();
      burn.in.push_back(bits_of(b));
      hash = hash * 31 + sum_bits(b);
    }
    burn.right[static_cast<std::size_t>(lane)] = hash;
  }
  return burn;
}

}  // namespace

Burn make_burn(int compute_major) {
  return compute_major >= 8 ? make_bf16() : make_f32();
}

}  // namespace stoker::agent
