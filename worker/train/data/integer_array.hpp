// IntegerArray: a one-dimensional array of i16, i32, u32 or i64, as small as its content allows.
// The index arrays of a large run have hundreds of millions of entries, so the element type is
// chosen once and kept, in memory and in the .npy file. IndexArray reads either.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/result.hpp"
#include "worker/train/data/checked_file.hpp"

namespace stoker::train {

class IntegerArray {
 public:
  using Storage = std::variant<std::vector<std::int16_t>, std::vector<std::int32_t>,
                               std::vector<std::uint32_t>, std::vector<std::int64_t>>;

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
// columns, columns). Returns the hashes of the file's blocks.
Result<std::vector<std::uint64_t>> write_npy(const std::string& path, const IntegerArray& array,
                                             std::uint64_t columns);

// Where the numbers of a .npy file lie that write_npy wrote; the content is hostile: type, shape
// and size of the file must agree.
struct NpyLayout {
  std::size_t type = 0;       // index in IntegerArray::Storage
  std::uint64_t begin = 0;    // byte of the first entry
  std::uint64_t entries = 0;  // all columns counted
};
Result<NpyLayout> read_npy_layout(const ByteFile& file, std::uint64_t columns);

// Entries of an array in memory, or in a .npy file of which only what is asked for is read.
class IndexArray {
 public:
  explicit IndexArray(IntegerArray array) : source_(std::move(array)) {}
  // `hashes`: of the file's blocks, as write_npy() returned them.
  static Result<IndexArray> open(ByteFile file, std::vector<std::uint64_t> hashes,
                                 std::uint64_t columns);

  [[nodiscard]] std::uint64_t size() const;
  // Entries [first, first + out.size()). Errors: beyond the end; unreadable; damaged. Thread-safe.
  Status read(std::uint64_t first, std::span<std::int64_t> out) const;
  Result<std::int64_t> at(std::uint64_t i) const;

 private:
  struct Stored {
    CheckedFile file;
    NpyLayout layout;
  };
  explicit IndexArray(Stored stored) : source_(std::move(stored)) {}

  std::variant<IntegerArray, Stored> source_;
};

}  // namespace stoker::train
