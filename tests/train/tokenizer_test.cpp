// The word split, GPT-2's ids, training of a vocabulary, and that every text comes back byte for
// byte.
#include "worker/train/data/tokenizer.hpp"

#include <cstdio>
#include <doctest/doctest.h>
#include <filesystem>
#include <random>
#include <stdlib.h>

#include "common/os/files.hpp"
#include "worker/train/data/bpe_training.hpp"
#include "worker/train/data/unicode_ranges.hpp"
#include "worker/train/data/word_split.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, first_word(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

using Words = std::vector<std::string>;

// The test data beside a checkout, "" without it.
std::string shared_data(const std::string& name) {
  const std::filesystem::path root = STOKER_SOURCE_DIR;
  const auto path = root.parent_path() / "shared/data" / name;
  return std::filesystem::exists(path) ? path.string() : "";
}

std::vector<TokenId> encode(Tokenizer& t, std::string_view text) {
  std::vector<TokenId> ids;
  t.encode(text, ids);
  return ids;
}

}  // namespace

TEST_CASE("word split: GPT-2's pattern -> its words") {
  CHECK(words_of("Hello world's end, it'll be 42 fine!!") ==
        Words{"Hello", " world", "'s", " end", ",", " it", "'ll", " be", " 42", " fine", "!!"});
  CHECK(words_of("a  b") == Words{"a", " ", " b"});
  CHECK(words_of("a \n b\n\n") == Words{"a", " \n", " b", "\n\n"});
  CHECK(words_of("a\tb") == Words{"a", "\t", "b"});
  CHECK(words_of("a\t\tb") == Words{"a", "\t", "\t", "b"});
  CHECK(words_of("don't 'tis 'S") == Words{"don", "'t", " '", "tis", " '", "S"});
  CHECK(words_of("x1y²") == Words{"x", "1", "y", "²"});
  CHECK(words_of("für 東京 ٣") == Words{"für", " 東京", " ٣"});
  CHECK(words_of("a\u00a0\u00a0b") == Words{"a", "\u00a0", "\u00a0", "b"});
  CHECK(words_of("a\xff\xfe b") == Words{"a", "\xff\xfe", " b"});
  CHECK(words_of("\xe2\x82") == Words{"\xe2\x82"});
  CHECK(words_of(" ") == Words{" "});
  CHECK(is_letter(U'ß'));
  CHECK_FALSE(is_letter(U'1'));
  CHECK(is_number(0x2167));  // a roman eight
  CHECK(is_space(0x3000));
}

TEST_CASE("word split: cut at a safe place -> the same words") {
  std::mt19937 random(5);
  const std::string_view letters = "ab1 \n\t'.s\xc3\xa9\xc2\xa0";
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += letters[random() % letters.size()];
    const std::size_t cut = safe_cut(text);
    Words apart = words_of(std::string_view(text).substr(0, cut));
    const Words rest = words_of(std::string_view(text).substr(cut));
    apart.insert(apart.end(), rest.begin(), rest.end());
    CHECK(apart == words_of(text));
  }
  CHECK(safe_cut("abc def") == 3);
  CHECK(safe_cut("abcdef") == 6);
}

TEST_CASE("byte tokenizer: any bytes -> themselves, end of document 256") {
  const auto t = make_byte_tokenizer();
  const std::string text("a\0\xff\n", 4);
  CHECK(encode(*t, text) == std::vector<TokenId>{97, 0, 255, 10});
  CHECK(t->decode(encode(*t, text)) == text);
  CHECK(t->end_of_document() == 256);
  CHECK(t->text_of(256) == "<|endoftext|>");
  CHECK(t->text_of(-1) == "<|-1|>");
}

TEST_CASE("GPT-2 tokenizer: known sentences -> OpenAI's ids") {
  const std::string path = shared_data("gpt2-merges.txt");
  if (path.empty()) {
    std::puts("SKIPPED: ../shared/data/gpt2-merges.txt is absent");
    return;
  }
  const auto merges = parse_merges(os::read_file(path).value(), path);
  REQUIRE(merges.has_value());
  CHECK(merges->size() == 50000);
  const auto t = make_bpe_tokenizer(*merges);
  CHECK(t->vocabulary() == 50257);
  CHECK(t->end_of_document() == 50256);
  CHECK(encode(*t, "Hello, world!") == std::vector<TokenId>{15496, 11, 995, 0});
  CHECK(encode(*t, "The quick brown fox jumps over the lazy dog") ==
        std::vector<TokenId>{464, 2068, 7586, 21831, 18045, 625, 262, 16931, 3290});
  CHECK(format_merges(*merges) == os::read_file(path).value());
  const std::string shakespeare = shared_data("tinyshakespeare.txt");
  if (shakespeare.empty()) {
    std::puts("SKIPPED: ../shared/data/tinyshakespeare.txt is absent");
    return;
  }
  // The first 90 % and the rest, as nanoGPT counts them with tiktoken.
  const std::string text = os::read_file(shakespeare).value();
  const auto cut = static_cast<std::size_t>(static_cast<double>(text.size()) * 0.9);
  const auto first = encode(*t, std::string_view(text).substr(0, cut));
  CHECK(first.size() == 301966);
  CHECK(encode(*t, std::string_view(text).substr(cut)).size() == 36059);
  CHECK(t->decode(first) == text.substr(0, cut));
}

TEST_CASE("BPE: random bytes -> the same bytes back; one word of a million letters is no trap") {
  BpeTrainer trainer;
  trainer.add("low lower lowest new newer newest wide wider widest low low newer");
  const Merges merges = trainer.train(300);
  const auto t = make_bpe_tokenizer(merges);
  std::mt19937 random(9);
  for (int round = 0; round < 50; ++round) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += static_cast<char>(random() % 256);
    CHECK(t->decode(encode(*t, text)) == text);
  }
  const std::string huge(1'000'000, 'w');
  CHECK(t->decode(encode(*t, huge)) == huge);
}

TEST_CASE("BPE: random words -> the same ids as the plain rule, lowest rank first") {
  BpeTrainer trainer;
  std::mt19937 random(11);
  const auto word = [&] {
    std::string text;
    for (std::uint64_t i = 0, n = 1 + random() % 12; i < n; ++i) text += "abc"[random() % 3];
    return text;
  };
  for (int i = 0; i < 500; ++i) trainer.add(word());
  const Merges merges = trainer.train(300);
  REQUIRE(merges.size() == 43);
  const auto bytes = make_bpe_tokenizer({});
  const auto fast = make_bpe_tokenizer(merges);
  for (int round = 0; round < 500; ++round) {
    const std::string text = word();
    std::vector<TokenId> ids = encode(*bytes, text);
    for (std::size_t rank = 0; rank < merges.size(); ++rank)
      for (std::size_t i = 0; i + 1 < ids.size(); ++i)
        if (std::pair(ids[i], ids[i + 1]) == merges[rank]) {
          ids[i] = static_cast<TokenId>(256 + rank);
          ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
    CHECK(encode(*fast, text) == ids);
  }
}

TEST_CASE("BPE training: the most frequent pair first, ties to the smaller ids, then no more") {
  BpeTrainer trainer;
  trainer.add("aaab aaab cd cd");
  const auto t = make_bpe_tokenizer({});
  const auto id = [&](char c) { return encode(*t, std::string(1, c)).at(0); };
  const Merges merges = trainer.train(258);
  // "aa" occurs twice in each of the two words.
  CHECK(merges == Merges{{id('a'), id('a')}});
  const Merges all = trainer.train(1000);
  CHECK(all.size() < 743);
  BpeTrainer other;
  other.add("cd cd");
  other.add(" aaab aaab");
  BpeTrainer again;
  again.add(" aaab aaab");
  again.add("cd cd");
  CHECK(other.train(400) == again.train(400));
  const auto trained = make_bpe_tokenizer(all);
  CHECK(encode(*trained, "aaab").size() == 1);
  CHECK(encode(*trained, " aaab").size() == 2);  // with the space it occurs once only
}

TEST_CASE("merges: a file that makes no sense -> refused with its line") {
  const auto what = [](std::string_view text) { return parse_merges(text, "m.txt").error().what; };
  CHECK(what("#version: 0.2\n") == "no merges");
  CHECK(what("#version: 0.2\na b c\n").find("line 2: a symbol") == 0);
  CHECK(what("ab\n").find("line 1: not two symbols") == 0);
  CHECK(what("a b\na b\n").find("line 2: a pair that is there already") == 0);
  CHECK(what("ab c\n").find("line 1: a symbol that no line before it makes") == 0);
}

TEST_CASE("tokenizer files: saved beside the data -> loaded; other merges are refused") {
  char name[] = "/tmp/stoker-tokenizer-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const std::string prefix = folder + "/d";
  REQUIRE(save_tokenizer(prefix, *make_byte_tokenizer(), {}).has_value());
  CHECK((*load_tokenizer(prefix))->vocabulary() == 257);
  BpeTrainer trainer;
  trainer.add("low lower lowest low low");
  const Merges merges = trainer.train(262);
  REQUIRE(save_tokenizer(prefix, *make_bpe_tokenizer(merges), merges).has_value());
  const auto loaded = load_tokenizer(prefix);
  REQUIRE(loaded.has_value());
  CHECK((*loaded)->vocabulary() == 257 + merges.size());
  CHECK((*loaded)->decode(encode(**loaded, "lowest")) == "lowest");
  REQUIRE(os::replace_file(prefix + ".merges.txt", "a b\n", os::Durability::Cached).has_value());
  CHECK(load_tokenizer(prefix).error().what.find("not the merges") != std::string::npos);
  std::filesystem::remove_all(folder);
}
