// Transcripts: the tiny language of tests/golden/*.txt. A line says what happens in the world at a
// moment; the answer is what the decider decided, one decision a line, with its actions in short
// form. See tests/golden/README.md for the words.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "sim/transcript/transcript_file.hpp"

namespace stoker::sim {

class Transcript {
 public:
  Transcript();
  ~Transcript();

  // Runs one line: what was decided up to its moment, and because of it. Errors: words that mean
  // nothing here.
  Result<LineAnswer> run(std::string_view line);
  // Replays the whole journal from zero and compares, bit for bit.
  Status audit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A transcript file with the answers as they are now; the caller compares. Errors name the line.
Result<std::string> rerun_transcript(std::string_view file, const std::string& name);

}  // namespace stoker::sim
