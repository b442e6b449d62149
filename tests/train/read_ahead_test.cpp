// Samples that are read before they are asked for are the ones that a direct read gives.
#include "worker/train/data/read_ahead.hpp"

#include <doctest/doctest.h>
#include <filesystem>

#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace {

TrainingData some_data(const Folder& folder) {
  auto writer = IndexedDatasetWriter::create(folder / "d", TokenType::U16);
  for (TokenId t = 0; t < 400; ++t) REQUIRE(writer->add(std::vector{t}).has_value());
  REQUIRE(writer->end_document().has_value());
  REQUIRE(writer->commit().has_value());
  DataRequest request;
  request.data.train = {{folder / "d", 1.0}};
  request.data.split = {1, 0, 0};
  request.data.cache = "";
  request.sequence = 4;
  request.vocabulary = 1000;
  request.samples = 60;
  auto data = TrainingData::open(request);
  REQUIRE(data.has_value());
  return std::move(*data);
}

}  // namespace

TEST_CASE("read ahead: planned, dropped, planned again and never planned -> the same samples") {
  const Folder folder;
  const TrainingData data = some_data(folder);
  ReadAhead ahead(data);
  const auto same = [&](std::uint64_t id) {
    CHECK(ahead.sample(id)->tokens == data.sample(id)->tokens);
  };
  same(7);  // before any plan
  for (std::uint64_t first = 0; first + 20 <= 60; first += 10) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = first; id < first + 20; ++id) ids.push_back(id);
    ahead.plan(ids);
    for (std::uint64_t id = first; id < first + 10; ++id) {
      same(id);
      same(id);  // by the first stage and by the last
    }
    same(59 - first);
  }
  ahead.plan({});
  same(3);
  // What was read is kept: the file is not asked again.
  ahead.plan({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  std::vector<Sample> before;
  for (std::uint64_t id = 0; id < 10; ++id) before.push_back(data.sample(id).value());
  (void)ahead.sample(9);  // the last one that is read
  std::filesystem::resize_file(folder / "d.bin", 8);
  for (std::uint64_t id = 0; id < 10; ++id) CHECK(ahead.sample(id)->tokens == before[id].tokens);
}

TEST_CASE(
    "read ahead: a file that got shorter -> the error is the reader's; the end waits for it") {
  const Folder folder;
  const TrainingData data = some_data(folder);
  std::filesystem::resize_file(folder / "d.bin", 8);
  ReadAhead ahead(data);
  ahead.plan({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  std::size_t errors = 0;
  for (std::uint64_t id = 0; id < 10; ++id)
    if (const auto sample = ahead.sample(id); !sample) {
      ++errors;
      CHECK(sample.error().object == folder / "d.bin");
    }
  CHECK(errors >= 9);  // only the first sample of the text may be in what is left
  ahead.plan({20, 21, 22});
}
