// Lines to inputs; the state that must survive travels in the cursor.
#include "watch/lead_file.hpp"

#include <array>

namespace stoker::watch {

namespace {
constexpr std::array<Duration, 5> kSilence{10s, 30s, 2min, 10min, 1h};

// After these a digest of the beats before them is wanted at once.
bool is_edge(const wire::AgentBody& body) {
  return !std::holds_alternative<wire::Notice>(body) &&
         !std::holds_alternative<wire::ControlRefused>(body) &&
         !std::holds_alternative<wire::KernelLine>(body);
}

// Words that end an attempt, read in one piece with those that began the next.
void mark_overtaken(std::vector<core::Input>& inputs, std::size_t from) {
  Attempt begun;
  for (std::size_t i = inputs.size(); i-- > from;) {
    auto* said = std::get_if<core::AgentSaid>(&inputs[i].body);
    if (said == nullptr) continue;
    if (const auto* started = std::get_if<wire::AttemptStarted>(&said->event.body))
      begun = std::max(begun, started->attempt);
    said->overtaken = wire::is_overtaken(said->event.body, begun);
  }
}
}  // namespace

LeadFile::LeadFile(LeadFileOptions options, const std::optional<core::Cursor>& cursor)
    : options_(std::move(options)),
      tail_(options_.path, options_.tail, cursor),
      folder_(options_.generation, options_.interval) {
  if (!cursor) return;
  behind_ = *cursor;
  if (const auto told = from_json_text<Told>(cursor->parser_state, options_.path)) {
    told_ = *told;
    folder_.restore(told_.folder);
  }
}

void LeadFile::poll(Instant now, bool newest, std::vector<core::Input>& out) {
  if (!heard_) heard_ = now;
  if (!newest) folder_.forget_pending();
  TailRead read = tail_.poll(now);
  more_ = read.more;
  error_ = read.error;
  if (read.restarted) {
    behind_ = tail_.cursor();
    notice("was truncated or replaced; it is read again from its beginning", out);
  }
  const std::size_t before = out.size();
  for (const TailLine& line : read.lines) take_line(line, now, newest, out);
  mark_overtaken(out, before);
}

void LeadFile::take_line(const TailLine& line, Instant now, bool newest,
                         std::vector<core::Input>& out) {
  heard_ = now;
  next_threshold_ = 0;
  if (told_.silent) {
    told_.silent = false;
    push(core::LeadSpeaks{options_.generation}, out);
  }
  auto event = wire::parse_event_line(line.text, options_.path);
  if (event) {
    if (const auto* beat = std::get_if<wire::Beat>(&event->body); beat != nullptr && newest)
      live_ = LiveBeat{options_.generation, *beat, now};
    return take_event(std::move(*event), line, newest, out);
  }
  behind_ = line.cursor;
  if (++told_.damaged == 1)
    notice("line " + std::to_string(line.number) + " is skipped: " + event.error().what, out);
}

void LeadFile::take_event(wire::AgentEvent event, const TailLine& line, bool newest,
                          std::vector<core::Input>& out) {
  if (const auto* beat = std::get_if<wire::Beat>(&event.body)) {
    behind_ = line.cursor;
    if (options_.from != "lead") return;
    if (!newest) {
      if (!told_.late && !told_.over) {
        told_.late = true;
        notice("still beats although a newer generation has begun", out);
      }
      return;
    }
    if (auto digest = folder_.beat(*beat, event.at)) push(std::move(*digest), out);
    return;
  }
  if (is_edge(event.body)) flush(out);
  behind_ = line.cursor;
  if (const auto* goodbye = std::get_if<wire::Goodbye>(&event.body))
    told_.over |= goodbye->lead && options_.from == "lead";
  push(core::AgentSaid{options_.generation, options_.from, std::move(event)}, out);
}

void LeadFile::flush(std::vector<core::Input>& out) {
  if (auto digest = folder_.flush()) push(std::move(*digest), out);
}

void LeadFile::watch_silence(Instant now, std::vector<core::Input>& out) {
  if (told_.over || !heard_) return;
  const Duration age = now - *heard_;
  bool passed = false;
  while (next_threshold_ < kSilence.size() && age >= kSilence.at(next_threshold_)) {
    ++next_threshold_;
    passed = true;
  }
  if (!passed) return;
  told_.silent = true;
  push(core::LeadSilent{options_.generation, age}, out);
}

void LeadFile::push(core::EventBody body, std::vector<core::Input>& out) {
  told_.folder = folder_.state();
  core::Cursor cursor = behind_;
  cursor.path = options_.path;
  cursor.parser_state = to_json_text(told_);
  out.push_back({options_.run, std::move(body), {std::move(cursor)}});
}

// What the watcher itself has to say travels as an agent's notice.
void LeadFile::notice(const std::string& text, std::vector<core::Input>& out) {
  wire::AgentEvent event;
  event.body = wire::Notice{{}, options_.path + " " + text};
  push(core::AgentSaid{options_.generation, "watch", std::move(event)}, out);
}

}  // namespace stoker::watch
