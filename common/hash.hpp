// Checksums and fingerprints: crc32c ends every line that an agent writes, XXH3-64 names the
// content of files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace stoker {

// CRC-32C (Castagnoli), as in RFC 3720: crc32c("123456789") == 0xe3069283.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc = 0);

std::uint64_t xxh3_64(std::string_view bytes);
// XXH3-64 of a whole file, read in pieces of 1 MiB.
Result<std::uint64_t> xxh3_64_file(const std::string& path);

std::string hex64(std::uint64_t value);  // 16 lower-case digits
std::string hex32(std::uint32_t value);  // 8 lower-case digits

// A streaming XXH3-64, for files that are hashed while they are written.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;
  void update(const void* data, std::size_t size);
  [[nodiscard]] std::uint64_t digest() const;

 private:
  void* state_;
};

}  // namespace stoker
