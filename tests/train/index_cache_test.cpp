// The cached arrays of a data set and of a blend: from the folder, built again, built by one, and
// what a damaged or foreign file does.
#include "worker/train/data/index_cache.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <stdlib.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "worker/train/data/blend.hpp"
#include "worker/train/data/training_data.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace {

constexpr SampleIndexSpec kSpec{0, 40, 30, 8, 1234, 0.80};

// 40 documents of 1 to 7 tokens.
IndexedDataset some_data(const Folder& folder, int documents = 40) {
  auto writer = IndexedDatasetWriter::create(folder / "d", TokenType::U16);
  TokenId next = 0;
  for (int d = 0; d < documents; ++d) {
    for (int i = 0; i <= d % 7; ++i) REQUIRE(writer->add(std::vector{next++}).has_value());
    REQUIRE(writer->end_document().has_value());
  }
  REQUIRE(writer->commit().has_value());
  auto data = IndexedDataset::open(folder / "d");
  REQUIRE(data.has_value());
  return std::move(*data);
}

using Entries = std::vector<std::vector<std::int64_t>>;

Entries entries(const CachedArrays& cache) {
  Entries all;
  for (const IndexArray& array : cache.arrays) {
    all.emplace_back(array.size());
    CHECK(array.read(0, all.back()).has_value());
  }
  return all;
}

// Writes the arrays and all that vouches for them.
void write_cache(const std::string& stem, const std::string& description, const Entries& values) {
  std::vector<std::uint64_t> blocks;
  const char* names[] = {"document", "sample", "shuffle"};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto hashes =
        write_npy(stem + "-" + names[i] + "_index.npy", IntegerArray(values[i]), i == 1 ? 2 : 1);
    REQUIRE(hashes.has_value());
    blocks.insert(blocks.end(), hashes->begin(), hashes->end());
  }
  const std::string bytes(reinterpret_cast<const char*>(blocks.data()), 8 * blocks.size());
  REQUIRE(os::replace_file(stem + "-blocks.bin", bytes, os::Durability::Cached).has_value());
  const std::string text = description + "\nblocks " + hex64(xxh3_64(bytes)) + "\n";
  REQUIRE(os::replace_file(stem + "-description.txt", text, os::Durability::Cached).has_value());
}

void flip_a_bit(const std::string& path) {
  std::string bytes = os::read_file(path).value();
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
  REQUIRE(os::replace_file(path, bytes, os::Durability::Cached).has_value());
}

// All samples, or the first error.
Status read_all(IndexedDataset data, CachedIndex cached) {
  const GptDataset set(std::move(data), std::move(cached), kSpec.sequence);
  for (std::uint64_t i = 0; i < set.samples(); ++i)
    if (const auto tokens = set.tokens(i); !tokens) return fail(tokens.error());
  return ok();
}

}  // namespace

TEST_CASE("index cache: built, then cached, then without a folder -> the same entries") {
  const Folder folder;
  const auto data = some_data(folder);
  const auto built = load_or_build_index(folder / "cache", data, kSpec);
  REQUIRE(built.has_value());
  CHECK_FALSE(built->cache.from_cache);
  const auto cached = load_or_build_index(folder / "cache", data, kSpec);
  CHECK(cached->cache.from_cache);
  CHECK(entries(cached->cache) == entries(built->cache));
  const auto memory = load_or_build_index("", data, kSpec);
  CHECK_FALSE(memory->cache.from_cache);
  CHECK(entries(memory->cache) == entries(built->cache));
  CHECK_FALSE(memory->shuffle_index().at(memory->samples()).has_value());
  CHECK_FALSE(cached->shuffle_index().at(cached->samples()).has_value());
  CHECK(os::list_directory(folder / "cache")->size() == 5);  // no lock is left
  CHECK(md5_hex("abc") == "900150983cd24fb0d6963f7d28e17f72");
}

TEST_CASE("index cache: a torn or stale file -> built again; an unwritable folder -> a note") {
  const Folder folder;
  const auto data = some_data(folder);
  const auto first = entries(load_or_build_index(folder / "cache", data, kSpec)->cache);
  const auto names = os::list_directory(folder / "cache").value();
  for (const std::string& name : names) {
    CAPTURE(name);
    const std::string path = folder / "cache/" + name;
    std::filesystem::resize_file(path, 3);
    const auto rebuilt = load_or_build_index(folder / "cache", data, kSpec);
    CHECK_FALSE(rebuilt->cache.from_cache);
    CHECK(entries(rebuilt->cache) == first);
    CHECK(load_or_build_index(folder / "cache", data, kSpec)->cache.from_cache);
    std::filesystem::remove(path);
    CHECK_FALSE(load_or_build_index(folder / "cache", data, kSpec)->cache.from_cache);
    if (name.ends_with(".npy")) continue;  // the next test
    flip_a_bit(path);
    CHECK_FALSE(load_or_build_index(folder / "cache", data, kSpec)->cache.from_cache);
  }
  REQUIRE(os::replace_file(folder / "file", "x", os::Durability::Cached).has_value());
  const auto noted = load_or_build_index(folder / "file/cache", data, kSpec);
  REQUIRE(noted.has_value());
  CHECK(noted->cache.problem.has_value());
  CHECK(entries(noted->cache) == first);
}

TEST_CASE("index cache: a flipped bit in an array -> found when it is read, then built again") {
  const Folder folder;
  const auto data = some_data(folder);
  const auto first = entries(load_or_build_index(folder / "cache", data, kSpec)->cache);
  const auto names = os::list_directory(folder / "cache").value();
  for (const std::string& name : names) {
    if (!name.ends_with(".npy")) continue;
    CAPTURE(name);
    const std::string path = folder / "cache/" + name;
    flip_a_bit(path);
    auto damaged = load_or_build_index(folder / "cache", data, kSpec);
    REQUIRE(damaged->cache.from_cache);
    const Status read = read_all(some_data(folder), *std::move(damaged));
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().what.starts_with("damaged: bytes 0 to "));
    CHECK(read.error().object == path);
    CHECK(read.error().hint == "the index is built again at the next start");
    const auto rebuilt = load_or_build_index(folder / "cache", data, kSpec);
    CHECK_FALSE(rebuilt->cache.from_cache);
    CHECK(entries(rebuilt->cache) == first);
  }
}

TEST_CASE("index cache: of files that others can have written -> in memory, nothing is written") {
  const Folder folder;
  const auto data = some_data(folder);
  const auto first = entries(load_or_build_index(folder / "cache", data, kSpec)->cache);
  const auto refused = [&](const std::string& path, const char* why) {
    CAPTURE(path);
    const std::string before = os::read_file(path).value();
    const auto again = load_or_build_index(folder / "cache", data, kSpec);
    CHECK_FALSE(again->cache.from_cache);
    CHECK(entries(again->cache) == first);
    REQUIRE(again->cache.problem.has_value());
    CHECK(again->cache.problem->message().find(why) != std::string::npos);
    CHECK(again->cache.problem->hint.find("in memory") != std::string::npos);
    CHECK(os::read_file(path).value() == before);
    CHECK(os::list_directory(folder / "cache")->size() == 5);
  };
  const auto names = os::list_directory(folder / "cache").value();
  for (const std::string& name : names) {
    const std::string path = folder / "cache/" + name;
    std::filesystem::permissions(path, std::filesystem::perms(0666));
    refused(path, "refused: ");
    std::filesystem::permissions(path, std::filesystem::perms(0644));
    std::filesystem::rename(path, folder / "moved");
    std::filesystem::create_symlink(folder / "moved", path);
    refused(path, "symbolic link");
    std::filesystem::rename(folder / "moved", path);
    if (::geteuid() == 0) {
      REQUIRE(::chown(path.c_str(), 4711, 4711) == 0);
      refused(path, "uid 4711");
      REQUIRE(::chown(path.c_str(), 0, 0) == 0);
    }
    CHECK(load_or_build_index(folder / "cache", data, kSpec)->cache.from_cache);
  }
}

TEST_CASE("index cache: entries that lead out of the data -> an error, then built again") {
  const Folder folder;
  const auto data = some_data(folder);
  auto good = load_or_build_index(folder / "cache", data, kSpec);
  const std::string stem = good->cache.stem;
  const std::string description = good->description;
  const Entries values = entries(good->cache);
  const auto fails = [&](const Entries& bad) {
    write_cache(stem, description, bad);
    auto cached = load_or_build_index(folder / "cache", data, kSpec);
    REQUIRE(cached.has_value());
    if (!cached->cache.from_cache) return true;  // of another size: built again at once
    if (read_all(some_data(folder), *std::move(cached))) return false;
    CHECK_FALSE(load_or_build_index(folder / "cache", data, kSpec)->cache.from_cache);
    return true;
  };
  const auto with = [&](std::size_t array, std::size_t at, std::int64_t value) {
    CAPTURE(array);
    CAPTURE(at);
    CAPTURE(value);
    Entries bad = values;
    bad.at(array).at(at) = value;
    CHECK(fails(bad));
  };
  CHECK_FALSE(fails(values));
  constexpr std::int64_t kHuge = 0x7fffffffffffffff;
  for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{40}, kHuge}) with(0, 3, value);
  for (const std::size_t at : {0u, 1u, 4u, 5u, 7u})
    for (const std::int64_t value : {std::int64_t{-1}, kHuge, -kHuge}) with(1, at, value);
  with(1, 5, values[1][5] + 1);  // a sample too long, the next too short
  with(2, 2, static_cast<std::int64_t>(values[2].size()));
  with(2, 2, -1);
  CHECK(fails({values[0], values[1], {0, 1, 2}}));
  CHECK(fails({{}, {}, {}}));
}

TEST_CASE("index cache: many at once -> one builds, every one has the same index") {
  const Folder folder;
  const auto data = some_data(folder, 400);
  const SampleIndexSpec spec{0, 400, 3000, 8, 1234, 0.80};
  std::vector<std::optional<CachedIndex>> results(8);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] {
      auto index = load_or_build_index(folder / "cache", data, spec);
      if (index) result.emplace(*std::move(index));
    });
  for (std::thread& thread : threads) thread.join();
  int built = 0;
  for (const auto& result : results) {
    REQUIRE(result.has_value());
    CHECK_FALSE(result->cache.problem.has_value());
    built += result->cache.from_cache ? 0 : 1;
    CHECK(entries(result->cache) == entries(results[0]->cache));
  }
  CHECK(built == 1);
  CHECK(os::list_directory(folder / "cache")->size() == 5);
}

TEST_CASE("index cache: a process that builds -> the others wait for its arrays") {
  const Folder folder;
  const auto data = some_data(folder);
  const auto good = load_or_build_index(folder / "cache", data, kSpec);
  const std::string description = good->cache.stem + "-description.txt";
  const std::string text = os::read_file(description).value();
  std::filesystem::remove(description);
  const std::string lock = good->cache.stem + ".lock";
  const os::Fd builder(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  REQUIRE(::flock(builder.get(), LOCK_EX | LOCK_NB) == 0);
  bool from_cache = false;
  std::thread waits([&] {
    const auto cached = load_or_build_index(folder / "cache", data, kSpec);
    from_cache = cached && cached->cache.from_cache;
  });
  const auto holders = [&] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      count += std::filesystem::read_symlink(entry, gone) == lock ? 1 : 0;
    }
    return count;
  };
  while (holders() < 2) std::this_thread::yield();  // it has looked, and waits for its turn
  REQUIRE(os::replace_file(description, text, os::Durability::Cached).has_value());
  waits.join();
  CHECK(from_cache);
}

TEST_CASE("blend cache: three sets -> the blend's own entries; others -> built apart") {
  const Folder folder;
  const std::vector<double> weights{5, 3, 2};
  const Blend expected = blend(weights, 1000);
  const auto built = load_or_build_blend(folder / "cache", weights, 1000);
  REQUIRE(built.has_value());
  const auto cached = load_or_build_blend(folder / "cache", weights, 1000);
  CHECK(cached->cache.from_cache);
  const Entries all = entries(cached->cache);
  CHECK(all[0] == std::vector<std::int64_t>(expected.source.begin(), expected.source.end()));
  CHECK(all[1] == expected.within);
  CHECK(all[2] == expected.used);
  const std::vector<double> others{5, 3, 2.5};
  CHECK_FALSE(load_or_build_blend(folder / "cache", others, 1000)->cache.from_cache);
  CHECK_FALSE(load_or_build_blend(folder / "cache", weights, 1001)->cache.from_cache);
}
