// File: "stoker-patterns 1\n", the key, '\n', XXH3 of the bytes in hexadecimal, '\n', the bytes.
#include "diagnose/match/pattern_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <hs/hs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "diagnose/match/block_expression.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::string_view kMagic = "stoker-patterns 1\n";
constexpr std::size_t kLargest = 64u << 20;

std::string header(const std::string& key, std::string_view bytes) {
  return fmt::format("{}{}\n{:016x}\n", kMagic, key, xxh3_64(bytes));
}

}  // namespace

std::string PatternCache::usual_folder(const char* cache_home, const char* home) {
  if (cache_home != nullptr && cache_home[0] == '/') return std::string(cache_home) + "/stoker";
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/stoker";
  return "";
}

std::string PatternCache::path_of(const std::string& key) const {
  return folder_ + "/patterns-" + key + ".db";
}

std::optional<std::string> PatternCache::load(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = path_of(key);
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const bool ours = status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!ours || status.st_size <= 0 || static_cast<std::size_t>(status.st_size) > kLargest)
    return std::nullopt;
  std::string all(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t got = 0; got < all.size();) {
    const ssize_t more = ::read(fd.get(), all.data() + got, all.size() - got);
    if (more <= 0) return std::nullopt;
    got += static_cast<std::size_t>(more);
  }
  const std::size_t head = header(key, "").size();
  if (all.size() <= head) return std::nullopt;
  const std::string bytes = all.substr(head);
  if (all.compare(0, head, header(key, bytes)) != 0) return std::nullopt;
  return bytes;
}

void PatternCache::store(const std::string& key, std::string_view bytes) const {
  if (folder_.empty() || !os::make_directories(folder_, 0700)) return;
  const std::string all = header(key, bytes) + std::string(bytes);
  (void)os::replace_file(path_of(key), all, os::Durability::Cached, 0600);
}

std::string pattern_key(const std::vector<std::string>& expressions) {
  std::string all = std::string(hs_version()) + '\0';
  hs_platform_info_t platform{};
  hs_populate_platform(&platform);
  all += fmt::format("{} {:x}\n", platform.tune, platform.cpu_features);
  for (const std::string& expression : expressions) {
    all += block_expression(expression).text;  // what the database is made of
    all += '\0';
  }
  return fmt::format("{:016x}", xxh3_64(all));
}

}  // namespace stoker::diagnose
