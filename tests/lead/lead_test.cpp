// The lead's transcripts: every .txt beside this file is rerun in virtual time and must come out
// the same.
#include "tests/lead/script.hpp"
#include "tests/transcripts.hpp"

TEST_CASE("lead: every transcript -> what the lead did when it was reviewed") {
  stoker::testing::check_transcripts(STOKER_LEAD_DIR, 25, stoker::lead_test::rerun);
}

TEST_CASE("lead: all transcripts together -> every stage is entered in one of them") {
  std::string all;
  for (const auto& path : stoker::testing::transcripts(STOKER_LEAD_DIR))
    all += stoker::testing::read_whole(path);
  for (const char* stage : {"looking", "benching", "choosing", "asking_port", "running", "judging",
                            "waiting", "concluding", "leaving", "left"})
    CHECK_MESSAGE(all.find(std::string("-> ") + stage + "\n") != std::string::npos, stage);
}
