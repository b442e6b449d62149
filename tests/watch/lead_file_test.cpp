// Agents' files to inputs: digests that do not depend on how the bytes arrive, edges, silence,
// damage, generations.
#include <set>
#include <unistd.h>

#include "tests/folder.hpp"
#include "watch/generations.hpp"

using namespace stoker;
using namespace stoker::watch;
using stoker::testing::Folder;

namespace {

Instant at(Duration d) {
  return Instant(d);
}

wire::Beat beat_of(std::uint64_t iteration, double milliseconds = 100) {
  wire::Beat beat;
  beat.attempt = Attempt(1);
  beat.phase = wire::Phase::Iteration;
  beat.ranks = beat.reporting = 4;
  beat.iteration_min = beat.iteration_max = Iteration(iteration);
  beat.loss = 2.5;
  beat.iteration_ms = {1, milliseconds, milliseconds, milliseconds};
  beat.progress_age_ms = 40;
  beat.oldest = {{Rank(1), NodeName("n01"), 40, wire::Phase::Iteration, Iteration(iteration)},
                 {Rank(2), NodeName("n01"), 30, wire::Phase::Iteration, Iteration(iteration)}};
  return beat;
}

std::string line_of(wire::AgentBody body, Duration when) {
  wire::AgentEvent event;
  event.at = Instant(when);
  event.body = std::move(body);
  return wire::format_event_line(event);
}

std::vector<std::string> kinds(const std::vector<core::Input>& inputs) {
  std::vector<std::string> out;
  for (const auto& input : inputs) out.emplace_back(core::kind_of(input.body));
  return out;
}
using Kinds = std::vector<std::string>;

const core::Digest& digest_in(const core::Input& input) {
  return std::get<core::Digest>(input.body);
}

LeadFile lead_of(const Folder& folder, const std::optional<core::Cursor>& cursor = {},
                 Duration interval = 30s) {
  return LeadFile({RunName("run"), Generation(17), folder / "lead.jsonl", "lead", interval, {}},
                  cursor);
}

std::string one_generation() {
  std::string text = line_of(wire::GenerationStarted{}, 1s);
  for (unsigned i = 1; i <= 12; ++i) text += line_of(beat_of(i, 100 + i), 1s + i * 700ms);
  text += line_of(wire::RankExited{}, 10s);
  for (unsigned i = 13; i <= 20; ++i) text += line_of(beat_of(i, 100 + i), 2s + i * 700ms);
  return text;
}

// Reads `text` in two pieces, with a new reader (from its last cursor) for the second if asked.
std::string story_of(const std::string& text, std::size_t cut, bool restart) {
  const Folder folder;
  std::vector<core::Input> inputs;
  std::optional<core::Cursor> cursor;
  auto lead = std::make_unique<LeadFile>(lead_of(folder, {}, 3s));
  folder.append("lead.jsonl", text.substr(0, cut));
  lead->poll(at(1s), true, inputs);
  if (restart) {
    if (!inputs.empty()) cursor = inputs.back().cursors.at(0);
    lead = std::make_unique<LeadFile>(lead_of(folder, cursor, 3s));
  }
  folder.append("lead.jsonl", text.substr(cut));
  lead->poll(at(2s), true, inputs);
  lead->flush(inputs);
  std::string story;
  for (const auto& input : inputs) story += to_json_text(input.body) + "\n";
  return story;
}

}  // namespace

TEST_CASE("digest: the same bytes cut at every position, with and without a restart -> the same") {
  const std::string text = one_generation();
  const std::string whole = story_of(text, text.size(), false);
  CHECK(std::count(whole.begin(), whole.end(), '\n') == 8);
  std::set<std::size_t> cuts;  // every byte around a line's end, and a net over the rest
  for (std::size_t cut = 0; cut < text.size(); cut += 29) cuts.insert(cut);
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1))
    cuts.insert({end - 1, end, end + 1, std::min(end + 2, text.size())});
  for (const std::size_t cut : cuts) {
    REQUIRE(story_of(text, cut, false) == whole);
    REQUIRE(story_of(text, cut, true) == whole);
  }
}

TEST_CASE("digest: beats of a quiet minute -> the first at once, then one in 30 s, merged times") {
  DigestFolder folder(Generation(1), 30s);
  REQUIRE(folder.beat(beat_of(1), at(0s)));
  for (unsigned i = 1; i < 30; ++i) REQUIRE_FALSE(folder.beat(beat_of(1 + i, i), at(i * 1s)));
  const auto digest = folder.beat(beat_of(31, 1000), at(30s));
  REQUIRE(digest);
  CHECK(digest->last.iteration_max.value == 31);
  CHECK(digest->iteration_ms.count == 30);
  CHECK(digest->iteration_ms.max == 1000);
  CHECK(digest->iteration_ms.p50 == 15);
  CHECK(digest->last.oldest.empty());
  CHECK_FALSE(folder.flush());
}

TEST_CASE("digest: nothing but ages changes -> none, until a Tick asks for it") {
  DigestFolder folder(Generation(1), 30s);
  wire::Beat beat = beat_of(5);
  beat.iteration_ms = {};
  REQUIRE(folder.beat(beat, at(0s)));
  for (unsigned i = 1; i < 100; ++i) {
    beat.progress_age_ms = 1000 * i;
    REQUIRE_FALSE(folder.beat(beat, at(i * 1s)));
  }
  const auto digest = folder.flush();
  REQUIRE(digest);
  CHECK(digest->last.progress_age_ms == 99'000);
  CHECK_FALSE(folder.flush());
  beat.iteration_min = beat.iteration_max = Iteration(6);
  CHECK(folder.beat(beat, at(100s)));  // progress again: an edge
}

TEST_CASE("digest: phase, attempt, checkpoint, lost ranks -> at once") {
  const auto edge = [](auto change) {
    DigestFolder folder(Generation(1), 30s);
    REQUIRE(folder.beat(beat_of(1), at(0s)));
    wire::Beat beat = beat_of(2);
    change(beat);
    return folder.beat(beat, at(1s)).has_value();
  };
  CHECK_FALSE(edge([](wire::Beat&) {}));
  CHECK(edge([](wire::Beat& b) { b.phase = wire::Phase::Checkpoint; }));
  CHECK(edge([](wire::Beat& b) { b.attempt = Attempt(2); }));
  CHECK(edge([](wire::Beat& b) { b.checkpoint = Iteration(1); }));
  CHECK(edge([](wire::Beat& b) { b.reporting = 3; }));
  CHECK(edge([](wire::Beat& b) { b.loss.reset(); }));
}

TEST_CASE("digest interval: a short floor -> a third of it, never more than 30 s") {
  CHECK(digest_interval(60s) == 30s);
  CHECK(digest_interval(30s) == 15s);
  CHECK(digest_interval(10min) == 30s);
  CHECK(digest_interval(3s) == 1500ms);
}

TEST_CASE(
    "lead file: an exit behind beats -> first the digest, then the exit, each with a cursor") {
  const Folder folder;
  LeadFile lead = lead_of(folder);
  folder.append("lead.jsonl", line_of(beat_of(1), 1s) + line_of(beat_of(2), 2s) +
                                  line_of(wire::Notice{NodeName("n01"), "chatter"}, 2s) +
                                  line_of(wire::RankExited{}, 3s));
  std::vector<core::Input> out;
  lead.poll(at(0s), true, out);
  CHECK(kinds(out) == Kinds{"digest", "agent_said", "digest", "agent_said"});
  CHECK(digest_in(out[2]).last.iteration_max.value == 2);
  CHECK(out[2].cursors.at(0).offset < out[3].cursors.at(0).offset);
  CHECK(out[3].run == RunName("run"));
}

TEST_CASE("lead file: damaged lines -> skipped, counted, reported once, also after a restart") {
  const Folder folder;
  LeadFile lead = lead_of(folder);
  std::string bad = line_of(wire::RankExited{}, 1s);
  bad[20] ^= 1;
  folder.append("lead.jsonl", bad + "rubbish\n" + line_of(wire::SaveFailed{}, 2s));
  std::vector<core::Input> out;
  lead.poll(at(0s), true, out);
  REQUIRE(kinds(out) == Kinds{"agent_said", "agent_said"});
  const auto& said = std::get<core::AgentSaid>(out[0].body);
  CHECK(said.from == "watch");
  CHECK(std::get<wire::Notice>(said.event.body).text.find("line 1 is skipped") !=
        std::string::npos);
  LeadFile resumed = lead_of(folder, out.back().cursors.at(0));
  folder.append("lead.jsonl", bad);
  out.clear();
  resumed.poll(at(0s), true, out);
  CHECK(out.empty());
}

TEST_CASE(
    "lead file: silence -> reported at 10 s, 30 s, 2 min; counted from zero after a restart") {
  const Folder folder;
  folder.append("lead.jsonl", line_of(beat_of(1), 1s));
  LeadFile lead = lead_of(folder);
  std::vector<core::Input> out;
  const auto look = [&](LeadFile& file, Duration now) {
    out.clear();
    file.poll(at(now), true, out);
    file.watch_silence(at(now), out);
    return kinds(out);
  };
  CHECK(look(lead, 0s) == Kinds{"digest"});
  CHECK(look(lead, 9s).empty());
  CHECK(look(lead, 10s) == Kinds{"lead_silent"});
  CHECK(std::get<core::LeadSilent>(out[0].body).age == 10s);
  CHECK(look(lead, 29s).empty());
  CHECK(look(lead, 31s) == Kinds{"lead_silent"});
  LeadFile resumed = lead_of(folder, out[0].cursors.at(0));
  CHECK(look(resumed, 1000s).empty());  // the daemon was away: nothing is known of that time
  CHECK(look(resumed, 1010s) == Kinds{"lead_silent"});
  folder.append("lead.jsonl", line_of(beat_of(2), 40s));
  CHECK(look(resumed, 1011s) == Kinds{"lead_speaks", "digest"});
  CHECK(look(resumed, 1012s).empty());
}

TEST_CASE("lead file: after its goodbye -> no silence") {
  const Folder folder;
  folder.append("lead.jsonl", line_of(wire::Goodbye{NodeName("n01"), true, 0, "done"}, 1s));
  LeadFile lead = lead_of(folder);
  std::vector<core::Input> out;
  lead.poll(at(0s), true, out);
  lead.watch_silence(at(1h), out);
  CHECK(kinds(out) == Kinds{"agent_said"});
}

TEST_CASE(
    "generations: a newer one -> followed; of the older only late lines, its beats tell on it") {
  const Folder folder;
  const auto make = [&](const std::string& name) {
    std::filesystem::create_directories(folder / (name + "/agents"));
  };
  make("gen-000001");
  folder.append("gen-000001/lead.jsonl", line_of(beat_of(1), 1s));
  Generations generations({RunName("run"), folder.path, 30s, {}}, {});
  std::vector<core::Input> out;
  generations.poll(at(0s), out);
  CHECK(kinds(out) == Kinds{"digest"});
  make("gen-000002");
  folder.append("gen-000002/lead.jsonl", line_of(wire::GenerationStarted{}, 1s));
  folder.append("gen-000001/lead.jsonl", line_of(beat_of(2), 2s) + line_of(beat_of(3), 3s) +
                                             line_of(wire::CheckpointSaved{}, 4s));
  folder.append("gen-000002/agents/n02.jsonl", line_of(wire::AgentLost{}, 1s));
  out.clear();
  generations.poll(at(1s), out);
  REQUIRE(kinds(out) == Kinds{"agent_said", "agent_said", "agent_said", "agent_said"});
  CHECK(std::get<core::AgentSaid>(out[0].body).from == "watch");
  CHECK(std::get<core::AgentSaid>(out[1].body).generation == Generation(1));
  CHECK(std::get<core::AgentSaid>(out[2].body).generation == Generation(2));
  CHECK(std::get<core::AgentSaid>(out[3].body).from == "n02");
  CHECK(generations.directories().at(0) == folder / "gen-000002");
}

TEST_CASE("generations: folders of another user before and behind ours -> not one word of them") {
  if (::geteuid() != 0) return;  // to make them another user's
  const Folder folder;
  for (const unsigned number : {1u, 2u, 3u, 4u}) {
    const std::string name = wire::generation_name(Generation(number));
    std::filesystem::create_directories(folder / name);
    folder.append(name + "/lead.jsonl",
                  line_of(wire::Goodbye{NodeName("n01"), true, 0, std::to_string(number)}, 1s));
    if (number != 3) REQUIRE(::chown((folder / name).c_str(), 54321, 54321) == 0);
  }
  Generations generations({RunName("run"), folder.path, 30s, {}}, {});
  std::vector<core::Input> out;
  for (const Instant now : {at(0s), at(1s), at(2s)}) generations.poll(now, out);
  REQUIRE(out.size() == 1);
  CHECK(std::get<core::AgentSaid>(out[0].body).generation == Generation(3));
}

TEST_CASE("generations: many passed while the daemon was away -> each reported once, in order") {
  const Folder folder;
  const auto add = [&](unsigned number) {
    const std::string name = wire::generation_name(Generation(number));
    std::filesystem::create_directories(folder / name);
    folder.append(name + "/lead.jsonl",
                  line_of(wire::Goodbye{NodeName("n01"), true, 0, std::to_string(number)}, 1s));
  };
  std::vector<core::Cursor> cursors;
  const auto numbers = [&]() {
    Generations generations({RunName("run"), folder.path, 30s, {}}, cursors);
    std::vector<core::Input> out;
    generations.poll(at(0s), out);
    generations.poll(at(1s), out);
    std::vector<std::uint32_t> found;
    for (const auto& input : out) {
      found.push_back(std::get<core::AgentSaid>(input.body).generation.value);
      cursors.push_back(input.cursors.at(0));
    }
    return found;
  };
  for (unsigned i = 1; i <= 4; ++i) add(i);
  CHECK(numbers() == std::vector<std::uint32_t>{2, 3, 4});  // an adopted run: no old stories
  for (unsigned i = 5; i <= 9; ++i) add(i);
  CHECK(numbers() == std::vector<std::uint32_t>{5, 6, 7, 8, 9});
  CHECK(numbers().empty());
}

TEST_CASE("digest: losses of many beats -> one fold; numbers of another attempt -> forgotten") {
  DigestFolder folder(Generation(1), 30s);
  REQUIRE(folder.beat(beat_of(1), at(0s)));
  for (unsigned i = 1; i <= 20; ++i) {
    wire::Beat beat = beat_of(1 + i);
    wire::add(beat.losses, {Iteration(1 + i), i == 7 ? 9.0 : 2.0, 0.1, std::nullopt, 0, 0});
    REQUIRE_FALSE(folder.beat(beat, at(i * 1s)));
  }
  const auto digest = folder.flush();
  REQUIRE(digest);
  CHECK(digest->losses.count == 20);
  CHECK(digest->losses.high == 9.0);
  CHECK(digest->losses.high_at == Iteration(8));
  CHECK(digest->last.losses == wire::StepLosses{});
  wire::Beat beat = beat_of(30);
  wire::add(beat.losses, {Iteration(30), 5.0, 0.1, std::nullopt, 0, 0});
  REQUIRE_FALSE(folder.beat(beat, at(21s)));
  beat = beat_of(25);
  beat.attempt = beat.attempt.next();
  beat.iteration_ms = {};
  const auto next = folder.beat(beat, at(22s));
  REQUIRE(next);
  CHECK(next->losses.count == 0);
  CHECK(next->iteration_ms.count == 0);
}

TEST_CASE(
    "lead file: an end read together with the next attempt's start -> overtaken; alone -> not") {
  const Folder folder;
  auto lead = lead_of(folder);
  wire::RankExited exited;
  exited.attempt = Attempt(1);
  wire::AttemptStarted started;
  started.attempt = Attempt(2);
  const auto overtaken = [&](const std::string& text) {
    folder.append("lead.jsonl", text);
    std::vector<core::Input> inputs;
    lead.poll(at(1s), true, inputs);
    std::vector<bool> marks;
    for (const auto& input : inputs)
      if (const auto* said = std::get_if<core::AgentSaid>(&input.body))
        marks.push_back(said->overtaken);
    return marks;
  };
  CHECK(overtaken(line_of(exited, 1s) + line_of(wire::AgentLost{}, 2s) + line_of(started, 9s)) ==
        std::vector<bool>{true, true, false});
  exited.attempt = Attempt(2);
  CHECK(overtaken(line_of(exited, 10s)) == std::vector<bool>{false});
}
