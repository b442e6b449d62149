// The language of transcripts itself, and the ports in memory.
#include "sim/transcript/transcript.hpp"

#include <doctest/doctest.h>

#include "sim/transcript/words.hpp"

using namespace stoker;
using namespace stoker::sim;

TEST_CASE("words: quoted texts, keys and lists -> taken out wherever they stand") {
  Words words("job 1_2 RUNNING nodes n[01-02] ends 2h \"a b\" rest");
  CHECK(words.next() == "job");
  CHECK(parse_job(words.next()) == JobId{1, 2});
  CHECK(words.nodes("nodes").size() == 2);
  CHECK(words.duration("ends") == 2h);
  CHECK(words.quoted() == "a b");
  CHECK(words.next() == "RUNNING");
  CHECK(words.rest() == "rest");
}

TEST_CASE("transcript: a word that means nothing -> an error that names it") {
  Transcript transcript;
  CHECK_FALSE(transcript.run("at 1s dance"));
  const auto result = transcript.run("at 1s quiet now");
  REQUIRE_FALSE(result);
  CHECK(result.error().message().find("now") != std::string::npos);
}

TEST_CASE("transcript: an answer that is no longer true -> replaced by the present one") {
  const auto now = rerun_transcript("at 1s scheduler blind \"x\"\n    nonsense\n\n# end\n", "t");
  REQUIRE(now);
  CHECK(now->find("nonsense") == std::string::npos);
  CHECK(now->find("unknown is not dead") != std::string::npos);
  CHECK(now->find("# end") != std::string::npos);
}

TEST_CASE("transcript: what happens between two lines -> stands between them, above the comment") {
  const auto said = [](std::string_view line) -> Result<LineAnswer> {
    if (line == "b") return LineAnswer{"before b\n", "  nested\n"};
    return LineAnswer{{}, std::string(line) + " done\n"};
  };
  const auto now = rerun_file("a\n    old\n\n# why b\nb\nc \\\n    d\n        old\n", "t", said);
  REQUIRE(now);
  CHECK(*now ==
        "a\n    a done\n    before b\n\n# why b\nb\n      nested\nc \\\n    d\n    c d done\n");
}

TEST_CASE("transcript: an answer of more than 120 columns -> broken at a space, characters count") {
  const std::string dots = [] {
    std::string text;
    for (int i = 0; i < 58; ++i) text += "\xc2\xb7 ";
    return text;  // 116 columns, more bytes
  }();
  CHECK(laid_out(dots + "x y\n") ==
        "    " + dots.substr(0, dots.size() - 1) + "\n            x y\n");
  CHECK(laid_out(dots.substr(0, dots.size() - 1) + "\n") ==
        "    " + dots.substr(0, dots.size() - 1) + "\n");
  const std::string word(200, 'w');
  CHECK(laid_out(word + " z\n") == "    " + word + "\n            z\n");
}

TEST_CASE("transcript: an unknown line -> an error that names the file and the line") {
  const auto now = rerun_transcript("# a\n\nadd alice\n", "t.txt");
  REQUIRE_FALSE(now);
  CHECK(now.error().message().find("t.txt:3") != std::string::npos);
  CHECK(now.error().message().find("add") != std::string::npos);
}
