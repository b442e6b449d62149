// The interpreter of transcripts. Each verb is one function; the world between two lines goes on as
// the last beat said, unless it was frozen.
#include "sim/transcript/transcript.hpp"

#include <fmt/format.h>
#include <utility>

#include "sim/transcript/describe.hpp"
#include "sim/transcript/script.hpp"

namespace stoker::sim {

struct Transcript::Impl {
  std::string out;
  Script script;
  Impl() : script([this](const core::JournalRow& row) { out += describe(row); }) {}
};

Transcript::Transcript() : impl_(std::make_unique<Impl>()) {}
Transcript::~Transcript() = default;

Result<LineAnswer> Transcript::run(std::string_view line) {
  LineAnswer answer;
  impl_->out.clear();
  Words words(line);
  STOKER_TRY_STATUS(impl_->script.advance(words));
  answer.meanwhile = std::exchange(impl_->out, {});
  auto said = impl_->script.run(words);
  if (!said) return fail(said.error());
  if (!words.empty())
    return fail(fmt::format("the words \"{}\" mean nothing here", words.rest()), std::string(line));
  answer.then = impl_->out + *said;
  return answer;
}

Status Transcript::audit() {
  return impl_->script.audit();
}

Result<std::string> rerun_transcript(std::string_view file, const std::string& name) {
  Transcript transcript;
  auto now = rerun_file(file, name, [&](std::string_view line) { return transcript.run(line); });
  if (now) STOKER_TRY_STATUS(transcript.audit());
  return now;
}

}  // namespace stoker::sim
