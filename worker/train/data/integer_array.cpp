// .npy: "\x93NUMPY" 1 0, u16 header length, a Python dict padded with spaces so that the data
// starts 64-aligned.
#include "worker/train/data/integer_array.hpp"

#include <array>
#include <cstring>
#include <fmt/format.h>

namespace stoker::train {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);

struct ElementType {
  std::string_view name;
  std::uint64_t width;  // bytes
};
constexpr ElementType kTypes[] = {{"<i2", 2}, {"<i4", 4}, {"<u4", 4}, {"<i8", 8}};
static_assert(std::size(kTypes) == std::variant_size_v<IntegerArray::Storage>);

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
void widen(std::span<const std::byte> in, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, in.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<std::int64_t>(value);
  }
}

void widen(std::size_t type, std::span<const std::byte> in, std::span<std::int64_t> out) {
  switch (type) {
    case 0: return widen<std::int16_t>(in, out);
    case 1: return widen<std::int32_t>(in, out);
    case 2: return widen<std::uint32_t>(in, out);
    default: return widen<std::int64_t>(in, out);
  }
}

}  // namespace

Result<std::vector<std::uint64_t>> write_npy(const std::string& path, const IntegerArray& array,
                                             std::uint64_t columns) {
  STOKER_TRY(out, ByteWriter::create(path));
  BlockHasher hasher;
  const std::string header = header_of(kTypes[array.storage().index()].name, array.size(), columns);
  for (const auto& part : {std::as_bytes(std::span(header)), array.bytes()}) {
    STOKER_TRY_STATUS(out.write(part));
    hasher.update(part);
  }
  STOKER_TRY_STATUS(out.commit());
  return hasher.finish();
}

Result<NpyLayout> read_npy_layout(const ByteFile& file, std::uint64_t columns) {
  constexpr std::uint64_t kMaxHeader = 512;
  std::string head(std::min(kMaxHeader, file.size()), '\0');
  STOKER_TRY_STATUS(file.read(0, std::as_writable_bytes(std::span(head))));
  // The header is a function of type and size, so it is compared instead of being parsed.
  for (std::size_t type = 0; type < std::size(kTypes); ++type)
    for (const std::uint64_t length : {64u, 128u}) {
      const auto& [name, width] = kTypes[type];
      if (file.size() < length || (file.size() - length) % (width * columns) != 0) continue;
      const std::uint64_t n = (file.size() - length) / width;
      const std::string header = header_of(name, n, columns);
      if (header.size() == length && head.starts_with(header)) return NpyLayout{type, length, n};
    }
  return fail("not the .npy array that was expected", file.path());
}

Result<IndexArray> IndexArray::open(ByteFile file, std::vector<std::uint64_t> hashes,
                                    std::uint64_t columns) {
  STOKER_TRY(layout, read_npy_layout(file, columns));
  STOKER_TRY(checked, CheckedFile::make(std::move(file), std::move(hashes)));
  return IndexArray(Stored{std::move(checked), layout});
}

std::uint64_t IndexArray::size() const {
  const auto* stored = std::get_if<Stored>(&source_);
  return stored ? stored->layout.entries : std::get<IntegerArray>(source_).size();
}

Status IndexArray::read(std::uint64_t first, std::span<std::int64_t> out) const {
  const auto* stored = std::get_if<Stored>(&source_);
  if (first > size() || out.size() > size() - first)
    return fail(fmt::format("entry {} of {} is asked for", first + out.size(), size()),
                stored ? stored->file.path() : std::string());
  if (!stored) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = std::get<IntegerArray>(source_)[first + i];
    return ok();
  }
  const std::uint64_t width = kTypes[stored->layout.type].width;
  std::array<std::byte, 1024> buffer;
  while (!out.empty()) {
    const std::size_t n = std::min<std::size_t>(out.size(), buffer.size() / width);
    const auto bytes = std::span(buffer).first(n * width);
    STOKER_TRY_STATUS(stored->file.read(stored->layout.begin + first * width, bytes));
    widen(stored->layout.type, bytes, out.first(n));
    first += n;
    out = out.subspan(n);
  }
  return ok();
}

Result<std::int64_t> IndexArray::at(std::uint64_t i) const {
  std::int64_t value = 0;
  STOKER_TRY_STATUS(read(i, std::span(&value, 1)));
  return value;
}

}  // namespace stoker::train
