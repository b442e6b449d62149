// A fingerprint of the training's state that does not depend on how it is sharded: each element of
// each logical tensor is mixed with the tensor's key and its index, and the results are added. So
// every rank digests what it owns, in any order, and the sums are added. It finds differences; it
// is no protection against a forger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/digest_element.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

struct StateDigest {
  std::uint64_t low = 0, high = 0;

  // Adds elements [first, first + count) of the tensor `name` (the part is in the name:
  // "blocks.0.mlp.in.weight/moment1").
  void add(std::string_view name, std::uint64_t first, const float* values, std::size_t count);
  void add(std::string_view name, std::uint64_t first, const double* values, std::size_t count);
  void add(std::string_view name, std::uint64_t scalar);
  void merge(const StateDigest& other);
  [[nodiscard]] std::string hex() const;  // 32 digits
  friend bool operator==(const StateDigest&, const StateDigest&) = default;
};

// Where the place of element `first` of the tensor `name` begins.
std::uint64_t digest_start(std::string_view name, std::uint64_t first);

// On the GPU: adds elements [first, first + count) to *sums of the device, bitwise as
// StateDigest::add; the order of the additions does not matter.
GpuError add_digest(std::string_view name, std::uint64_t first, const float* values,
                    std::size_t count, DigestSums* sums, Stream stream);

}  // namespace stoker::kernels
