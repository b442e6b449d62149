// Golden transcripts: every .txt beside this file is rerun through the engine in virtual time, its
// answers must come out the same, and its journal must replay to the same state bit for bit.
#include "sim/transcript/transcript.hpp"
#include "tests/transcripts.hpp"

TEST_CASE("golden: every transcript -> the decisions it had when it was reviewed") {
  stoker::testing::check_transcripts(STOKER_GOLDEN_DIR, 30, stoker::sim::rerun_transcript);
}
