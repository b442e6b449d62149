// IntegerArray: a one-dimensional array of i32, u32 or i64, as small as its content allows. The
// index arrays of a large run have hundreds of millions of entries, so the element type is chosen
// once and kept, in memory and in the .npy file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/result.hpp"
#include "worker/train/data/byte_file.hpp"

namespace stoker::train {

class IntegerArray {
 public:
  using Storage = std::variant<std::vector<std::int32_t>, std::vector<std::uint32_t>,
                               std::vector<std::int64_t>>;

  IntegerArray() = default;
  explicit IntegerArray(Storage storage) : storage_(std::move(storage)) {}

  [[nodiscard]] std::uint64_t size() const {
    return std::visit([](const auto& v) { return v.size(); }, storage_);
  }
  [[nodiscard]] std::int64_t operator[](std::uint64_t i) const {
    return std::visit([i](const auto& v) { return static_cast<std::int64_t>(v[i]); }, storage_);
  }
  [[nodiscard]] const Storage& storage() const { return storage_; }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::visit([](const auto& v) { return std::as_bytes(std::span(v)); }, storage_);
  }
  bool operator==(const IntegerArray&) const = default;

 private:
  Storage storage_;
};

// NumPy's .npy format 1.0, little endian, C order. `columns` 1 writes shape (n,), else (n /
// columns, columns).
Status write_npy(const std::string& path, const IntegerArray& array, std::uint64_t columns);
// Reads what write_npy wrote; the content is hostile: type, shape and size of the file must agree.
Result<IntegerArray> read_npy(const ByteFile& file, std::uint64_t columns);

}  // namespace stoker::train
