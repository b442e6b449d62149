// The indexed dataset byte for byte, everything that a damaged index can say, and the whole data
// path. index_cache_test.cpp has the cache.
#include "worker/train/data/indexed_dataset.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <stdlib.h>
#include <thread>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "worker/train/data/training_data.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace {

void write_documents(const std::string& prefix, const std::vector<std::vector<TokenId>>& documents,
                     TokenType type = TokenType::U16) {
  auto writer = IndexedDatasetWriter::create(prefix, type);
  REQUIRE(writer.has_value());
  for (const auto& document : documents) {
    REQUIRE(writer->add(document).has_value());
    REQUIRE(writer->end_document().has_value());
  }
  REQUIRE(writer->commit().has_value());
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (const unsigned char c : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", c);
    out += two;
  }
  return out;
}

// `tokens` documents of growing length; token values tell where they are.
std::vector<std::vector<TokenId>> some_documents(int n, TokenId base = 0) {
  std::vector<std::vector<TokenId>> documents;
  TokenId next = base;
  for (int d = 0; d < n; ++d) {
    std::vector<TokenId> document;
    for (int i = 0; i <= d % 7; ++i) document.push_back(next++);
    documents.push_back(document);
  }
  return documents;
}

}  // namespace

TEST_CASE("indexed dataset: two documents -> .idx and .bin byte for byte") {
  const Folder folder;
  write_documents(folder / "d", {{1, 2, 3}, {513}});
  CHECK(hex(os::read_file(folder / "d.bin").value()) == "0100020003000102");
  CHECK(hex(os::read_file(folder / "d.idx").value()) ==
        "4d4d494449445800000100000000000000"
        "08"
        "0200000000000000"
        "0300000000000000"
        "0300000001000000"
        "00000000000000000600000000000000"
        "000000000000000001000000000000000200000000000000");
  const auto data = IndexedDataset::open(folder / "d");
  REQUIRE(data.has_value());
  CHECK(data->sequences() == 2);
  std::vector<TokenId> out(2);
  REQUIRE(data->read(0, 1, out).has_value());
  CHECK(out == std::vector<TokenId>{2, 3});
}

TEST_CASE("indexed dataset: 1000 documents -> 20042 bytes of index; every token type reads back") {
  const Folder folder;
  write_documents(folder / "d", some_documents(1000));
  CHECK(std::filesystem::file_size(folder / "d.idx") == 20042);
  for (const TokenType type : {TokenType::U8, TokenType::I32, TokenType::I64}) {
    write_documents(folder / "t", {{7, 200}, {}, {3}}, type);
    const auto data = IndexedDataset::open(folder / "t");
    REQUIRE(data.has_value());
    CHECK(data->type() == type);
    std::vector<TokenId> out(2);
    REQUIRE(data->read(0, 0, out).has_value());
    CHECK(out == std::vector<TokenId>{7, 200});
    CHECK(data->length(1).value() == 0);
  }
  CHECK(token_type_for(50257) == TokenType::U16);
  CHECK(token_type_for(65500) == TokenType::I32);
  auto narrow = IndexedDatasetWriter::create(folder / "n", TokenType::U8);
  CHECK_FALSE(narrow->add(std::vector<TokenId>{256}).has_value());
  CHECK_FALSE(narrow->add(std::vector<TokenId>{-1}).has_value());
}

TEST_CASE("indexed dataset: missing, foreign, truncated or altered index -> one clear line each") {
  const Folder folder;
  write_documents(folder / "d", {{1, 2, 3}, {4, 5}});
  const std::string good = os::read_file(folder / "d.idx").value();
  const auto error_of = [&](const std::string& index) {
    REQUIRE(os::replace_file(folder / "d.idx", index, os::Durability::Cached).has_value());
    const auto opened = IndexedDataset::open(folder / "d");
    return opened ? std::string("opened") : opened.error().message();
  };
  CHECK(error_of(good) == "opened");
  CHECK(IndexedDataset::open(folder / "none").error().message().find("cannot open") !=
        std::string::npos);
  CHECK(error_of("").find("less than the header") != std::string::npos);
  CHECK(error_of("PK" + good.substr(2)).find("no Megatron index") != std::string::npos);
  CHECK(error_of(good + "xxxxxxxxxx").find("do not make") != std::string::npos);
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(error_of(good.substr(0, cut)) != "opened");
  const auto with = [&](std::size_t at, unsigned char value) {
    std::string bad = good;
    bad[at] = static_cast<char>(value);
    return error_of(bad);
  };
  CHECK(with(9, 2).find("version 2") != std::string::npos);
  CHECK(with(17, 7).find("token type 7") != std::string::npos);
  CHECK(with(25, 0xff).find("do not make") != std::string::npos);  // 2^63 sequences
  CHECK(with(34, 200).find("lies outside") != std::string::npos);
  CHECK(with(37, 0x80).find("lies outside") != std::string::npos);  // a negative length
  CHECK(with(58, 9).find("document boundary 0 is 9") != std::string::npos);
  CHECK(with(74, 1).find("the documents end at sequence 1 of 2") != std::string::npos);
  CHECK(error_of(good) == "opened");
  write_documents(folder / "e", {{1}, {2}, {3}});
  std::string back = os::read_file(folder / "e.idx").value();
  back[34 + 36 + 8] = 2;  // boundaries 0 2 1 3 run backwards
  back[34 + 36 + 16] = 1;
  REQUIRE(os::replace_file(folder / "e.idx", back, os::Durability::Cached).has_value());
  CHECK(IndexedDataset::open(folder / "e").error().what.find("document boundary 2 is 1") !=
        std::string::npos);
  std::filesystem::resize_file(folder / "d.bin", 8);
  CHECK(error_of(good).find("lies outside") != std::string::npos);
}

TEST_CASE(
    "training data: samples -> seq+1 tokens, each beginning with the last of the one before") {
  const Folder folder;
  write_documents(folder / "d", some_documents(40));
  DataRequest request;
  request.data.train = {{folder / "d", 1.0}};
  request.data.split = {1, 0, 0};
  request.data.cache = folder / "cache";
  request.sequence = 8;
  request.vocabulary = 1000;
  request.samples = 30;
  const auto data = TrainingData::open(request);
  REQUIRE(data.has_value());
  CHECK(data->problems().empty());
  const GptDataset& set = data->source(0);
  // In stream order (the shuffle undone) neighbouring samples share one token.
  std::map<std::int64_t, std::vector<TokenId>> by_position;
  for (std::uint64_t i = 0; i < set.samples(); ++i)
    by_position[set.cached().shuffle_index().at(i).value()] = set.tokens(i).value();
  for (std::int64_t k = 1; k < static_cast<std::int64_t>(by_position.size()); ++k)
    CHECK(by_position[k - 1].back() == by_position[k].front());
  CHECK(data->sample(0)->tokens.size() == 9);

  const auto again = TrainingData::open(request);
  CHECK(again->source(0).cached().cache.from_cache);
  CHECK(again->digest() == data->digest());
  request.samples = 31;
  CHECK(TrainingData::open(request)->digest() != data->digest());
  request.vocabulary = 20;
  CHECK(TrainingData::open(request)->sample(0).error().what.find("model.vocabulary is 20") !=
        std::string::npos);
  request.data.split = {0, 1, 0};
  CHECK(TrainingData::open(request).error().what == "no tokens in this split");
}

TEST_CASE("training data: two sets blended 3:1 -> counts by source, tokens from the right set") {
  const Folder folder;
  write_documents(folder / "a", some_documents(60));
  write_documents(folder / "b", some_documents(60, 5000));
  DataRequest request;
  request.data.train = {{folder / "a", 3.0}, {folder / "b", 1.0}};
  request.data.split = {1, 0, 0};
  request.data.cache = "";
  request.sequence = 4;
  request.vocabulary = 10000;
  request.samples = 400;
  const auto data = TrainingData::open(request);
  REQUIRE(data.has_value());
  CHECK(data->source_counts(0, 399).value() ==
        std::map<std::uint32_t, std::uint64_t>{{0, 300}, {1, 100}});
  for (std::uint64_t id = 0; id < 400; ++id) {
    const auto sample = data->sample(id);
    REQUIRE(sample.has_value());
    CHECK((sample->tokens[0] >= 5000) == (sample->source == 1));
  }
  // The same from a cached blend; a damaged one is reported, and built again at the next start.
  request.data.cache = folder / "cache";
  const auto first = TrainingData::open(request);
  for (std::uint64_t id = 0; id < 400; ++id)
    CHECK(first->sample(id)->tokens == data->sample(id)->tokens);
  std::string path;
  const auto names = os::list_directory(folder / "cache").value();
  for (const std::string& name : names)
    if (name.ends_with("-dataset_index.npy")) path = folder / "cache/" + name;
  std::string bytes = os::read_file(path).value();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  REQUIRE(os::replace_file(path, bytes, os::Durability::Cached).has_value());
  const auto damaged = TrainingData::open(request);
  CHECK(damaged->sample(0).error().object == path);
  CHECK_FALSE(damaged->source_counts(0, 399).has_value());
  CHECK(TrainingData::open(request)->sample(399)->tokens == data->sample(399)->tokens);
}
