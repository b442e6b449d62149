// .npy: "\x93NUMPY" 1 0, u16 header length, a Python dict padded with spaces so that the data
// starts 64-aligned.
#include "worker/train/data/integer_array.hpp"

#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace stoker::train {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);

std::string_view type_name(const IntegerArray::Storage& storage) {
  constexpr std::string_view kNames[] = {"<i4", "<u4", "<i8"};
  return kNames[storage.index()];
}

std::string header_of(std::string_view type, std::uint64_t n, std::uint64_t columns) {
  const std::string shape =
      columns == 1 ? fmt::format("({},)", n) : fmt::format("({}, {})", n / columns, columns);
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  const std::size_t used = kMagic.size() + 2 + dict.size() + 1;
  dict.append((64 - used % 64) % 64, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

template <class T>
Result<IntegerArray> read_values(const ByteFile& file, std::uint64_t at, std::uint64_t n) {
  std::vector<T> values(n);
  STOKER_TRY_STATUS(file.read(at, std::as_writable_bytes(std::span(values))));
  return IntegerArray(std::move(values));
}

}  // namespace

Status write_npy(const std::string& path, const IntegerArray& array, std::uint64_t columns) {
  STOKER_TRY(out, ByteWriter::create(path));
  const std::string header = header_of(type_name(array.storage()), array.size(), columns);
  STOKER_TRY_STATUS(out.write(std::as_bytes(std::span(header))));
  STOKER_TRY_STATUS(out.write(array.bytes()));
  return out.commit();
}

Result<IntegerArray> read_npy(const ByteFile& file, std::uint64_t columns) {
  constexpr std::uint64_t kMaxHeader = 512;
  std::string head(std::min(kMaxHeader, file.size()), '\0');
  STOKER_TRY_STATUS(file.read(0, std::as_writable_bytes(std::span(head))));
  // The header is a function of type and size, so it is compared instead of being parsed.
  for (const std::string_view type : {"<i4", "<u4", "<i8"}) {
    const std::uint64_t width = type == "<i8" ? 8 : 4;
    for (const std::uint64_t length : {64u, 128u}) {
      if (file.size() < length || (file.size() - length) % (width * columns) != 0) continue;
      const std::uint64_t n = (file.size() - length) / width;
      const std::string header = header_of(type, n, columns);
      if (header.size() != length || !head.starts_with(header)) continue;
      if (type == "<i4") return read_values<std::int32_t>(file, length, n);
      if (type == "<u4") return read_values<std::uint32_t>(file, length, n);
      return read_values<std::int64_t>(file, length, n);
    }
  }
  return fail("not the .npy array that was expected", file.path());
}

}  // namespace stoker::train
