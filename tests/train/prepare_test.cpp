// prepare and samples from text to text, in every way of cutting documents, and what they refuse.
#include <doctest/doctest.h>
#include <filesystem>
#include <stdlib.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/time.hpp"
#include "tests/folder.hpp"
#include "worker/train/command/prepare_command.hpp"
#include "worker/train/command/samples_command.hpp"
#include "worker/train/data/indexed_dataset.hpp"
#include "worker/train/data/samples_log.hpp"
#include "worker/train/data/tokenizer.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace {

// The documents of a prefix as text, without the end-of-document marker.
std::vector<std::string> documents_of(const std::string& prefix) {
  const auto data = IndexedDataset::open(prefix);
  const auto tokenizer = load_tokenizer(prefix);
  REQUIRE(data.has_value());
  REQUIRE(tokenizer.has_value());
  std::vector<std::string> out;
  for (std::uint64_t i = 0; i < data->sequences(); ++i) {
    std::vector<TokenId> ids(static_cast<std::size_t>(data->length(i).value()));
    REQUIRE(data->read(i, 0, ids).has_value());
    REQUIRE(ids.back() == (*tokenizer)->end_of_document());
    ids.pop_back();
    out.push_back((*tokenizer)->decode(ids));
  }
  return out;
}

// Runs `body` with stdout in a file; returns what was printed.
template <class Body>
std::string printed_by(const Folder& folder, Body body) {
  std::fflush(stdout);
  const int saved = ::dup(1);
  const std::string path = folder / "printed";
  REQUIRE(std::freopen(path.c_str(), "w", stdout) != nullptr);
  body();
  std::fflush(stdout);
  ::dup2(saved, 1);
  ::close(saved);
  return os::read_file(path).value();
}

}  // namespace

TEST_CASE("prepare: files, paragraphs, lines, JSON lines -> their documents") {
  const Folder folder;
  const std::string text = folder.write("t.txt", "one\ntwo\n\n \nthree\r\n\n");
  const std::string json = folder.write("t.jsonl", "{\"text\": \"a\\nb\"}\n\n{\"text\": \"c\"}");
  PrepareOptions o;
  o.prefix = folder / "out/d";
  o.texts = {text, folder.write("empty", ""), text};
  REQUIRE(run_prepare(o).value() == 0);
  CHECK(documents_of(o.prefix) ==
        std::vector<std::string>{"one\ntwo\n\n \nthree\r\n\n", "one\ntwo\n\n \nthree\r\n\n"});
  o.texts = {text};
  o.documents = DocumentKind::Paragraph;
  REQUIRE(run_prepare(o).value() == 0);
  CHECK(documents_of(o.prefix) == std::vector<std::string>{"one\ntwo\n", "three\n"});
  o.documents = DocumentKind::Line;
  REQUIRE(run_prepare(o).value() == 0);
  CHECK(documents_of(o.prefix) == std::vector<std::string>{"one", "two", "three"});
  o.documents = DocumentKind::Jsonl;
  o.texts = {json};
  REQUIRE(run_prepare(o).value() == 0);
  CHECK(documents_of(o.prefix) == std::vector<std::string>{"a\nb", "c"});
  CHECK(std::filesystem::exists(o.prefix + ".tokenizer.json"));
}

TEST_CASE("prepare: a trained vocabulary over several pieces -> the same text, fewer tokens") {
  const Folder folder;
  std::string text;
  for (int i = 0; text.size() < (3u << 20); ++i)
    text += "the stoker feeds fire " + std::to_string(i);
  PrepareOptions o;
  o.texts = {folder.write("t.txt", text)};
  o.prefix = folder / "d";
  o.train_vocabulary = 400;
  REQUIRE(run_prepare(o).value() == 0);
  CHECK(documents_of(o.prefix) == std::vector<std::string>{text});
  CHECK(std::filesystem::file_size(o.prefix + ".bin") < text.size());
  const std::string first = os::read_file(o.prefix + ".merges.txt").value();
  PrepareOptions again = o;
  again.train_vocabulary.reset();
  again.merges = o.prefix + ".merges.txt";
  again.prefix = folder / "e";
  REQUIRE(run_prepare(again).value() == 0);
  CHECK(os::read_file(again.prefix + ".bin").value() == os::read_file(o.prefix + ".bin").value());
  CHECK(os::read_file(again.prefix + ".idx").value() == os::read_file(o.prefix + ".idx").value());
  CHECK(os::read_file(again.prefix + ".merges.txt").value() == first);
}

TEST_CASE("prepare: nothing to read, nowhere to write, wrong options -> one clear line, no files") {
  const Folder folder;
  PrepareOptions o;
  o.prefix = folder / "d";
  CHECK(run_prepare(o).value() == 2);
  o.texts = {folder.write("empty.txt", "")};
  CHECK(run_prepare(o).error().message() ==
        folder / "empty.txt" + ": the text is empty; give a file with text in it");
  o.texts = {folder / "none.txt"};
  CHECK(run_prepare(o).error().message() ==
        folder / "none.txt" + ": cannot open: No such file or directory");
  o.texts = {folder.write("blank.txt", "\n \n")};
  o.documents = DocumentKind::Line;
  CHECK(run_prepare(o).error().what == "the text is empty");
  CHECK_FALSE(std::filesystem::exists(folder / "d.bin"));
  o.documents = DocumentKind::Jsonl;
  o.texts = {folder.write("bad.jsonl", "{\"text\": \"a\"}\n{\"txt\": 1}\n")};
  CHECK(run_prepare(o).error().object == folder / "bad.jsonl:2");
  o.documents = DocumentKind::File;
  o.bytes = true;
  o.merges = "m";
  CHECK(run_prepare(o).value() == 2);
  o.bytes = false;
  CHECK(run_prepare(o).error().message().find("m: cannot open") == 0);
  o.merges.reset();
  o.texts = {folder.write("t.txt", "text")};
  o.prefix = folder / "t.txt/d";
  CHECK_FALSE(run_prepare(o).has_value());
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path))
    left += entry.path().string().find(".new.") != std::string::npos ? 1 : 0;
  CHECK(left == 0);
}

TEST_CASE("prepare: 20 MB of bytes -> each one a token") {
  const Folder folder;
  std::string text;
  while (text.size() < 20'000'000) text += "To be, or not to be: that is the question. ";
  PrepareOptions o;
  o.texts = {folder.write("t.txt", text)};
  o.prefix = folder / "d";
  REQUIRE(run_prepare(o).value() == 0);
  CHECK(std::filesystem::file_size(folder / "d.bin") >= 2 * text.size());
}

TEST_CASE("samples: an iteration -> its sample ids, documents and texts, logged or computed") {
  const Folder folder;
  PrepareOptions o;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i) + " of the text\n";
  o.texts = {folder.write("t.txt", text)};
  o.prefix = folder / "d";
  o.documents = DocumentKind::Line;
  REQUIRE(run_prepare(o).value() == 0);
  SamplesOptions s;
  s.iteration = Iteration(3);
  s.config = folder.write("train.yaml",
                          "model: {layers: 1, hidden: 8, heads: 2, sequence: 16, vocabulary: 257}\n"
                          "data: {train: [{prefix: " +
                              o.prefix + "}], cache: " + (folder / "cache") +
                              "}\n"
                              "batch: {micro: 1, global: 4}\ntrain: {samples: 40}\n"
                              "lr: {max: 1.0e-3, decay_samples: 40}\n"
                              "checkpoint: {samples_log: " +
                              (folder / "samples.log") + "}\n");
  const std::string computed = printed_by(folder, [&] { CHECK(run_samples(s).value() == 0); });
  CHECK(computed.find("iteration 3: samples 8-11; " + o.prefix + ": 4\n") == 0);
  CHECK(computed.find("--- sample 11: " + o.prefix + ", document ") != std::string::npos);
  CHECK(computed.find("of the") != std::string::npos);
  auto log = SamplesLog::open(folder / "samples.log");
  REQUIRE(log->append({Iteration(3), 12, 13, {{0, 2}}, Generation(1), Attempt(1)}).has_value());
  s.json = true;
  const std::string logged = printed_by(folder, [&] { CHECK(run_samples(s).value() == 0); });
  const auto json = parse_json(logged, "printed").value();
  CHECK(json["first"] == 12);
  CHECK(json["logged"] == true);
  CHECK(json["samples"].size() == 2);
  CHECK(json["samples"][0]["text"].get<std::string>().size() >= 16);
  std::string text_of_config = os::read_file(s.config, 4096).value();
  text_of_config.replace(text_of_config.find("samples: 40}"), 12,
                         "samples: 40, curriculum: {min: 4, total: 8, step: 4}}");
  s.config = folder.write("short.yaml", text_of_config);
  const auto cut =
      parse_json(printed_by(folder, [&] { CHECK(run_samples(s).value() == 0); }), "printed")
          .value();
  CHECK(cut["sequence"] == 8);
  const std::string begins = cut["samples"][0]["text"], whole = json["samples"][0]["text"];
  CHECK(begins.size() < whole.size());
  CHECK(whole.starts_with(begins));
  std::uint64_t tokens = 0;
  for (const Json& piece : cut["samples"][0]["documents"])
    tokens += piece["length"].get<std::uint64_t>();
  CHECK(tokens == 9);
  s.iteration = Iteration(11);
  CHECK(run_samples(s).error().hint == "this training has iterations 1 to 10");
  REQUIRE(log->append({Iteration(4), 12, 40, {{0, 2}}, Generation(1), Attempt(1)}).has_value());
  s.iteration = Iteration(4);
  CHECK(run_samples(s).error().what.find("are not in this training") != std::string::npos);
  s.config = folder.write("bad.yaml", "model: {}\n");
  CHECK(run_samples(s).value() == 22);
}
