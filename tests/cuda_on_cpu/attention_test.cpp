// Attention on the grid against its reference in double: f32 within 1e-5 of the largest value, bf16
// within 2^-7 of it; the mask is the CPU's.
#include "kernels/attention.hpp"

#include "tests/cuda_on_cpu/device.hpp"

using namespace stoker::kernels;

namespace {

struct Heads {
  std::vector<double> out, query, key, value;
};

constexpr std::size_t kFirstHead = 3;  // where a case has dropout: other ranks have those before

// All heads by the reference, with the masks that dropout_mask draws.
Heads reference(const AttentionShape& s, const std::vector<std::vector<double>>& inputs,
                const std::vector<std::uint64_t>& samples, double p) {
  const std::size_t each = s.sequence * s.width, scores = s.sequence * s.sequence;
  Heads all;
  for (std::size_t head = 0; head < s.samples * s.heads; ++head) {
    std::vector<double> mask(scores, 1.0);
    const DropoutKey key{9, samples[head / s.heads], 2, DropoutSite::Attention};
    if (p > 0) {
      std::vector<double> sample((kFirstHead + s.heads) * scores);
      dropout_mask(key, p, 0, sample.size(), sample.data());
      const auto from =
          sample.begin() + static_cast<std::ptrdiff_t>((kFirstHead + head % s.heads) * scores);
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

// Plain: [samples][heads][sequence][width] each. Training: query, key and value of a head beside
// each other in rows of all heads, out in rows of all heads. Shifted: as Training, but the tensors
// begin at an address that is no multiple of 16.
enum class Layout { Plain, Training, Shifted };

// A tensor in device memory that holds `parts` tensors of the shape.
template <class T>
class Placed {
 public:
  Placed(const AttentionShape& s, Layout layout, std::size_t parts)
      : s_(s),
        layout_(layout),
        parts_(parts),
        count_(s.samples * s.heads * s.sequence * s.width),
        lead_(layout == Layout::Shifted ? 1 : 0),
        memory_(std::vector<T>(parts * count_ + lead_)) {}
  Placed(const AttentionShape& s, Layout layout, const std::vector<std::vector<T>>& values)
      : Placed(s, layout, values.size()) {
    std::vector<T> all(parts_ * count_ + lead_);
    for (std::size_t part = 0; part < parts_; ++part)
      for (std::size_t i = 0; i < count_; ++i) all[place(part, i)] = values[part][i];
    REQUIRE(cudaMemcpy(memory_.data(), all.data(), all.size() * sizeof(T),
                       cudaMemcpyHostToDevice) == cudaSuccess);
  }
  [[nodiscard]] T* part(std::size_t part) const { return memory_.data() + place(part, 0); }
  [[nodiscard]] AttentionSteps steps() const {
    if (layout_ == Layout::Plain) return {};
    const std::size_t row = s_.heads * parts_ * s_.width;
    return {s_.sequence * row, parts_ * s_.width, row};
  }
  [[nodiscard]] std::vector<double> host(std::size_t part) const {
    const std::vector<double> all = wide(memory_.host());
    std::vector<double> values(count_);
    for (std::size_t i = 0; i < count_; ++i) values[i] = all[place(part, i)];
    return values;
  }

 private:
  // Of element i of [samples][heads][sequence][width].
  [[nodiscard]] std::size_t place(std::size_t part, std::size_t i) const {
    if (layout_ == Layout::Plain) return part * count_ + i;
    const std::size_t column = i % s_.width, row = i / s_.width % s_.sequence;
    const std::size_t head = i / s_.width / s_.sequence;
    const std::size_t sample = head / s_.heads;
    return lead_ +
           (((sample * s_.sequence + row) * s_.heads + head % s_.heads) * parts_ + part) *
               s_.width +
           column;
  }
  AttentionShape s_;
  Layout layout_;
  std::size_t parts_, count_, lead_;
  Device<T> memory_;
};

template <class T>
void against_reference(const AttentionShape& s, double p, Layout layout = Layout::Plain) {
  CAPTURE(s.sequence);
  CAPTURE(s.width);
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
  const Placed<T> qkv(s, layout, {in[0], in[1], in[2]}), up(s, layout, {in[3]}), out(s, layout, 1),
      gradients(s, layout, 3);
  const Device<float> log_sum(rows), delta(rows);
  const Device<std::uint64_t> ids(samples);
  AttentionForward<T> forward{qkv.part(0), qkv.part(1), qkv.part(2), out.part(0), log_sum.data(),
                              s,           {},          qkv.steps(), out.steps()};
  if (p > 0)
    forward.dropout = {ids.data(), dropout_draw({9, 0, 2, DropoutSite::Attention}, p),
                       static_cast<float>(1 / (1 - p)), kFirstHead};
  CHECK(attention(forward, nullptr) == 0);
  CHECK(attention_backward({forward, up.part(0), gradients.part(0), gradients.part(1),
                            gradients.part(2), delta.data()},
                           nullptr) == 0);
  const Heads want = reference(s, {wide(in[0]), wide(in[1]), wide(in[2]), wide(in[3])}, samples, p);
  const double allowed = small ? 0x1p-7 : 1e-5;
  CHECK(off(out.host(0), want.out, false, allowed) <= 1);
  CHECK(off(gradients.host(0), want.query, false, allowed) <= 1);
  CHECK(off(gradients.host(1), want.key, false, allowed) <= 1);
  CHECK(off(gradients.host(2), want.value, false, allowed) <= 1);
}

}  // namespace

TEST_CASE("attention.cu: sequence 1, odd, beyond a tile, widths 1 to 128 -> the reference") {
  against_reference<float>({1, 1, 1, 1}, 0);
  against_reference<float>({2, 2, 13, 5}, 0);
  against_reference<float>({1, 1, 67, 33}, 0);
  against_reference<float>({1, 1, 33, 128}, 0);
}

TEST_CASE("attention.cu: dropout, two samples and heads -> the reference under the CPU's mask") {
  against_reference<float>({2, 2, 13, 5}, 0.3);
  against_reference<float>({1, 3, 35, 32}, 0.1);
  against_reference<float>({2, 2, 13, 5}, 0.3, Layout::Training);
}

TEST_CASE("attention.cu: bf16 of a width or an address that is not whole packs -> the reference") {
  against_reference<Bf16>({1, 2, 37, 20}, 0.1, Layout::Training);
  against_reference<Bf16>({1, 2, 37, 64}, 0.1, Layout::Shifted);
}

TEST_CASE("attention_tiles.cu: sequence 1, odd, beyond tiles and strips -> the reference in 2^-7") {
  against_reference<Bf16>({1, 1, 1, 64}, 0);
  against_reference<Bf16>({1, 1, 17, 64}, 0);
  against_reference<Bf16>({1, 1, 64, 64}, 0);
  against_reference<Bf16>({1, 1, 129, 64}, 0);
}

TEST_CASE("attention_tiles.cu: widths 16 to 128, samples, heads, rows of all heads -> the same") {
  against_reference<Bf16>({2, 2, 70, 16}, 0, Layout::Training);
  against_reference<Bf16>({1, 2, 70, 72}, 0, Layout::Training);
  against_reference<Bf16>({1, 1, 70, 80}, 0);
  against_reference<Bf16>({1, 1, 66, 128}, 0);
}

TEST_CASE("attention_tiles.cu: dropout -> the reference under the CPU's mask") {
  against_reference<Bf16>({1, 1, 132, 64}, 0.1);
  against_reference<Bf16>({2, 2, 36, 16}, 0.3, Layout::Training);
  against_reference<Bf16>({1, 2, 68, 96}, 0.1, Layout::Training);
  against_reference<Bf16>({1, 2, 76, 128}, 0.1);
}

TEST_CASE("attention.cu: bf16, dropout of a sequence that is no multiple of four -> the same") {
  against_reference<Bf16>({2, 1, 33, 64}, 0.3, Layout::Training);
  against_reference<Bf16>({1, 1, 70, 32}, 0.1);
  against_reference<Bf16>({1, 2, 3, 16}, 0.1);
}
