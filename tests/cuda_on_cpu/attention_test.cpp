// Attention on the grid against its reference in double: f32 within 1e-5 of the largest value, bf16
// within 2^-7 of it; the mask is the CPU's.
#include "kernels/attention.hpp"

#include "tests/cuda_on_cpu/device.hpp"

using namespace stoker::kernels;

namespace {

struct Heads {
  std::vector<double> out, query, key, value;
};

// All heads by the reference, with the masks that dropout_mask draws.
Heads reference(const AttentionShape& s, const std::vector<std::vector<double>>& inputs,
                const std::vector<std::uint64_t>& samples, double p) {
  const std::size_t each = s.sequence * s.width, scores = s.sequence * s.sequence;
  Heads all;
  for (std::size_t head = 0; head < s.samples * s.heads; ++head) {
    std::vector<double> mask(scores, 1.0);
    const DropoutKey key{9, samples[head / s.heads], 2, DropoutSite::Attention};
    if (p > 0) {
      std::vector<double> sample(s.heads * scores);
      dropout_mask(key, p, 0, sample.size(), sample.data());
      const auto from = sample.begin() + static_cast<std::ptrdiff_t>(head % s.heads * scores);
      std::copy(from, from + static_cast<std::ptrdiff_t>(scores), mask.begin());
    }
    const auto part = [&](std::size_t i) {
      const auto from = inputs[i].begin() + static_cast<std::ptrdiff_t>(head * each);
      return std::vector<double>(from, from + static_cast<std::ptrdiff_t>(each));
    };
    const auto r = attention_reference(part(0), part(1), part(2), mask, part(3), s.width);
    all.out.insert(all.out.end(), r.out.begin(), r.out.end());
    all.query.insert(all.query.end(), r.query.begin(), r.query.end());
    all.key.insert(all.key.end(), r.key.begin(), r.key.end());
    all.value.insert(all.value.end(), r.value.begin(), r.value.end());
  }
  return all;
}

template <class T>
void against_reference(const AttentionShape& s, double p) {
  constexpr bool small = std::is_same_v<T, Bf16>;
  const std::size_t rows = s.samples * s.heads * s.sequence, n = rows * s.width;
  std::vector<std::vector<T>> in;
  for (std::uint64_t i = 0; i < 4; ++i) {
    if constexpr (small)
      in.push_back(narrow(draw(i + 1, n)));
    else
      in.push_back(draw(i + 1, n));
  }
  std::vector<std::uint64_t> samples;
  for (std::size_t i = 0; i < s.samples; ++i) samples.push_back((std::uint64_t{1} << 33) + 5 * i);
  const Device<T> q(in[0]), k(in[1]), v(in[2]), up(in[3]), out(n), dq(n), dk(n), dv(n);
  const Device<float> log_sum(rows), delta(rows);
  const Device<std::uint64_t> ids(samples);
  AttentionForward<T> forward{q.data(), k.data(), v.data(), out.data(), log_sum.data(), s, {}};
  if (p > 0)
    forward.dropout = {ids.data(), dropout_draw({9, 0, 2, DropoutSite::Attention}, p),
                       static_cast<float>(1 / (1 - p))};
  CHECK(attention(forward, nullptr) == 0);
  CHECK(attention_backward({forward, up.data(), dq.data(), dk.data(), dv.data(), delta.data()},
                           nullptr) == 0);
  const Heads want = reference(s, {wide(in[0]), wide(in[1]), wide(in[2]), wide(in[3])}, samples, p);
  const double allowed = small ? 0x1p-7 : 1e-5;
  CHECK(off(wide(out.host()), want.out, false, allowed) <= 1);
  CHECK(off(wide(dq.host()), want.query, false, allowed) <= 1);
  CHECK(off(wide(dk.host()), want.key, false, allowed) <= 1);
  CHECK(off(wide(dv.host()), want.value, false, allowed) <= 1);
}

}  // namespace

TEST_CASE("attention.cu: sequence 1, odd, beyond a tile, widths 1 to 128 -> the reference") {
  against_reference<float>({1, 1, 1, 1}, 0);
  against_reference<float>({2, 2, 13, 5}, 0);
  against_reference<float>({1, 1, 67, 33}, 0);
  against_reference<float>({1, 1, 33, 128}, 0);
}

TEST_CASE("attention.cu: bf16 -> the reference within 2^-7") {
  against_reference<Bf16>({1, 2, 37, 64}, 0);
  against_reference<Bf16>({1, 2, 37, 64}, 0.1);
}

TEST_CASE("attention.cu: dropout, two samples and heads -> the reference under the CPU's mask") {
  against_reference<float>({2, 2, 13, 5}, 0.3);
  against_reference<float>({1, 3, 35, 32}, 0.1);
}
