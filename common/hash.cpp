#include "common/hash.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#include <xxhash.h>

#include "common/os/fd.hpp"

namespace stoker {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1u) != 0 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

XXH3_state_t* as_state(void* p) {
  return static_cast<XXH3_state_t*>(p);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc) {
  crc = ~crc;
  for (const char b : bytes)
    crc = kCrcTable[(crc ^ static_cast<unsigned char>(b)) & 0xffu] ^ (crc >> 8);
  return ~crc;
}

std::uint64_t xxh3_64(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Result<std::uint64_t> xxh3_64_file(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode)) return fail("not a regular file", path);
  Xxh3Stream stream;
  std::vector<char> buffer(1u << 20);
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot read", path));
    if (n == 0) return stream.digest();
    stream.update(buffer.data(), static_cast<std::size_t>(n));
  }
}

std::string hex64(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}
std::string hex32(std::uint32_t value) {
  return fmt::format("{:08x}", value);
}

Xxh3Stream::Xxh3Stream() : state_(XXH3_createState()) {
  XXH3_64bits_reset(as_state(state_));
}
Xxh3Stream::~Xxh3Stream() {
  XXH3_freeState(as_state(state_));
}
void Xxh3Stream::update(const void* data, std::size_t size) {
  XXH3_64bits_update(as_state(state_), data, size);
}
std::uint64_t Xxh3Stream::digest() const {
  return XXH3_64bits_digest(as_state(state_));
}

}  // namespace stoker
