// A cache that is there, damaged, somebody else's, or of other patterns: only the first is used.
#include "diagnose/match/pattern_cache.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include "diagnose/match/pattern_set.hpp"
#include "tests/folder.hpp"

using namespace stoker::diagnose;
using stoker::testing::Folder;

namespace {

bool finds(const PatternSet& set, const std::string& line) {
  bool found = false;
  PatternSet::Scratch scratch(set);
  set.scan(line, scratch, [&](auto, auto, auto) { found = true; });
  std::vector<PatternSet::Group> groups;
  return found && set.match(0, line, groups);
}

std::string only_file(const Folder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path))
    return entry.path().string();
  return "";
}

}  // namespace

TEST_CASE("pattern cache: stored, then loaded -> the same matches") {
  const Folder folder;
  const PatternCache cache(folder.path);
  const std::vector<std::string> patterns{"out of (?P<what>memory)", "Xid"};
  CHECK_FALSE(cache.load(pattern_key(patterns)).has_value());
  CHECK(finds(*PatternSet::compile(patterns, &cache), "CUDA out of memory"));
  REQUIRE(cache.load(pattern_key(patterns)).has_value());
  const auto again = PatternSet::compile(patterns, &cache);
  CHECK(finds(*again, "CUDA out of memory"));
  CHECK_FALSE(finds(*again, "all is well"));
  CHECK(pattern_key(patterns) != pattern_key({"out of (?P<what>memory)"}));
}

TEST_CASE("pattern cache: any byte flipped, cut, writable by others, a link -> compiled again") {
  const Folder folder;
  const PatternCache cache(folder.path);
  const std::vector<std::string> patterns{"out of memory"};
  const std::string key = pattern_key(patterns);
  REQUIRE(PatternSet::compile(patterns, &cache).has_value());
  const std::string path = only_file(folder);
  std::string good;
  {
    std::ifstream file(path, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto put = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    put(bad);
    CAPTURE(at);
    CHECK_FALSE(cache.load(key).has_value());
  }
  put(good.substr(0, good.size() / 2));
  CHECK_FALSE(cache.load(key).has_value());
  CHECK(finds(*PatternSet::compile(patterns, &cache), "out of memory"));  // and is whole again
  CHECK(cache.load(key).has_value());
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  CHECK_FALSE(cache.load(key).has_value());
  std::filesystem::rename(path, folder / "aside");
  std::filesystem::create_symlink(folder / "aside", path);
  CHECK_FALSE(cache.load(key).has_value());
}

TEST_CASE(
    "pattern cache: bytes that are whole and no database, a folder that cannot be made -> "
    "compiled") {
  const Folder folder;
  const PatternCache cache(folder.path);
  const std::vector<std::string> patterns{"out of memory"};
  cache.store(pattern_key(patterns), "no database");
  CHECK(finds(*PatternSet::compile(patterns, &cache), "out of memory"));
  const PatternCache nowhere("/dev/null/cache");
  CHECK(finds(*PatternSet::compile(patterns, &nowhere), "out of memory"));
  CHECK(PatternCache::usual_folder(nullptr, nullptr).empty());
  CHECK(PatternCache::usual_folder("relative", "/home/a") == "/home/a/.cache/stoker");
}
