// The language of transcripts itself, and the ports in memory.
#include "sim/transcript.hpp"

#include <doctest/doctest.h>

#include "sim/words.hpp"

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
  const auto now = rerun_transcript("at 1s scheduler blind \"x\"\n----\nnonsense\n\n# end\n", "t");
  REQUIRE(now);
  CHECK(now->find("nonsense") == std::string::npos);
  CHECK(now->find("unknown is not dead") != std::string::npos);
  CHECK(now->find("# end") != std::string::npos);
}
