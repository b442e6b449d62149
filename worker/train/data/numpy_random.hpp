// numpy's RandomState as far as Megatron's sample order needs it: seed(u32) and shuffle of a 1-D
// array, bit for bit. std::mt19937 is the same generator with the same seeding (init_genrand).
// shuffle: for i = n-1 .. 1 swap with a masked rejection draw in [0, i]; one 32-bit output a try,
// two (high first) when i needs more. Verified against numpy 1.24.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace stoker::train {

class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}

  template <class T>
  void shuffle(std::span<T> values) {
    for (std::uint64_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

  // Uniform in [0, max].
  std::uint64_t interval(std::uint64_t max);

 private:
  std::mt19937 engine_;
};

}  // namespace stoker::train
