// The interpreter of transcripts. Each verb is one function; the world between two lines goes on as
// the last beat said, unless it was frozen.
#include "sim/transcript.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>

#include "sim/describe.hpp"
#include "sim/script.hpp"

namespace stoker::sim {

struct Transcript::Impl {
  std::string out;
  Script script;
  Impl() : script([this](const core::JournalRow& row) { out += describe(row); }) {}
};

Transcript::Transcript() : impl_(std::make_unique<Impl>()) {}
Transcript::~Transcript() = default;

Result<std::string> Transcript::run(std::string_view line) {
  impl_->out.clear();
  Words words(line);
  auto said = impl_->script.run(words);
  if (!said) return fail(said.error());
  if (!words.empty())
    return fail(fmt::format("the words \"{}\" mean nothing here", words.rest()), std::string(line));
  return impl_->out + *said;
}

Status Transcript::audit() {
  return impl_->script.audit();
}

Result<std::string> rerun_transcript(std::string_view file, const std::string& name) {
  Transcript transcript;
  std::string out;
  std::string answer;
  bool skipping = false;  // inside an old answer
  std::size_t number = 0;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t end = std::min(file.find('\n', at), file.size());
    const std::string_view line = file.substr(at, end - at);
    at = end + 1;
    ++number;
    if (skipping) {
      if (!line.empty()) continue;
      skipping = false;
      out += "\n";
    } else if (line == "----") {
      out += "----\n" + answer;
      answer.clear();
      skipping = true;
    } else {
      out += std::string(line) + "\n";
      if (line.empty() || line.starts_with('#')) continue;
      auto said = transcript.run(line);
      if (!said) return fail(said.error().message(), fmt::format("{}:{}", name, number));
      answer += *said;
    }
  }
  STOKER_TRY_STATUS(transcript.audit());
  return out;
}

}  // namespace stoker::sim
