// safetensors files: 8 bytes with the length of a JSON header, the header, then raw little-endian
// numbers. Files come from anywhere: the header has limits, and its tensors must cover the data
// once and wholly. Format: https://github.com/huggingface/safetensors.
#pragma once

#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "wire/tensor_box.hpp"

namespace stoker::train {

inline constexpr std::size_t kLargestSafetensorsHeader = 16u << 20;

struct SafeTensor {
  std::string name;
  std::string dtype;  // "F32"
  wire::Shape shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

// Bytes of an element; 0 for a type that is unknown here.
std::size_t safetensors_size(const std::string& dtype);

// What stands before the data: length and header, padded to 8 bytes. The tensors lie one behind the
// other in their order; begin and end are set.
std::string safetensors_start(std::vector<SafeTensor>& tensors);

// The tensors of a header, in the order of the data. Errors: no JSON, no tensors, a tensor whose
// bytes are not those of its shape, holes, overlaps, data of another size.
Result<std::vector<SafeTensor>> parse_safetensors_header(std::string_view json,
                                                         std::uint64_t data_bytes,
                                                         const std::string& object);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);

  [[nodiscard]] const std::vector<SafeTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // `size` bytes of a tensor from byte `at` of it.
  Status read(const SafeTensor& tensor, std::uint64_t at, std::size_t size, char* to) const;

 private:
  Status read_at(std::uint64_t at, std::size_t size, char* to) const;

  os::Fd fd_;
  std::string path_;
  std::uint64_t data_at_ = 0;
  std::vector<SafeTensor> tensors_;
};

}  // namespace stoker::train
