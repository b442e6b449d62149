// POSIX.1-1988 (ustar): blocks of 512 bytes, numbers in octal text, two empty blocks at the end.
#include "cli/support/archive.hpp"

#include <array>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <zstd.h>

#include "common/os/output.hpp"

namespace stoker::cli::support {
namespace {

constexpr std::size_t kBlock = 512, kNameBytes = 100, kPrefixBytes = 155;

struct Header {
  char name[kNameBytes], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
  char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
  char prefix[kPrefixBytes], rest[12];
};
static_assert(sizeof(Header) == kBlock);

template <std::size_t N>
void put(char (&field)[N], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), N));
}

// Where a long name is cut: behind it at most 100 bytes, in front of it at most 155. 0: not at all;
// empty: it does not fit.
std::optional<std::size_t> cut_of(const std::string& name) {
  if (name.size() <= kNameBytes) return 0;
  for (std::size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1))
    if (at <= kPrefixBytes && name.size() - at - 1 <= kNameBytes) return at;
  return std::nullopt;
}

Status add(std::string& tar, const std::string& name, const std::string& text, WallTime at) {
  const auto found = cut_of(name);
  if (!found) return fail("is a name that no tar archive can hold", name);
  const std::size_t cut = *found;
  Header header{};
  if (cut > 0) put(header.prefix, name.substr(0, cut));
  put(header.name, cut > 0 ? name.substr(cut + 1) : name);
  put(header.mode, "0000600");
  put(header.uid, "0000000");
  put(header.gid, "0000000");
  put(header.size, fmt::format("{:011o}", text.size()));
  put(header.mtime,
      fmt::format("{:011o}",
                  std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count()));
  put(header.checksum, "        ");
  header.type = '0';
  put(header.magic, "ustar");
  put(header.version, "00");
  std::array<unsigned char, kBlock> bytes{};
  std::memcpy(bytes.data(), &header, kBlock);
  unsigned sum = 0;
  for (const unsigned char byte : bytes) sum += byte;
  put(header.checksum, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  tar.append(reinterpret_cast<const char*>(&header), kBlock);
  tar += text;
  tar.append((kBlock - text.size() % kBlock) % kBlock, '\0');
  return ok();
}

}  // namespace

bool can_hold(const std::string& name) {
  return cut_of(std::string(kLongestFolder, '-') + "/" + name).has_value();
}

Status write_archive(const std::string& path, const std::string& folder,
                     const std::vector<Entry>& entries, WallTime at) {
  std::string tar;
  for (const Entry& entry : entries)
    STOKER_TRY_STATUS(add(tar, folder + "/" + entry.name, entry.text, at));
  tar.append(2 * kBlock, '\0');
  std::string packed(ZSTD_compressBound(tar.size()), '\0');
  const std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), tar.data(), tar.size(), ZSTD_CLEVEL_DEFAULT);
  if (ZSTD_isError(size) != 0) return fail(ZSTD_getErrorName(size), path);
  packed.resize(size);
  return os::write_output(path, packed, os::Durability::Cached, 0600);
}

}  // namespace stoker::cli::support
