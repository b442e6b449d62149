// Every kind of alert in every kind of sink. The alerts are those that the stories of tests/golden
// raise, as the decider words them; how each is shown stands in tests/alerts/rendered/kinds.txt
// (STOKER_REWRITE=1 writes it again: review the difference).
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "alerts/sink.hpp"
#include "alerts/try_out.hpp"
#include "core/alerts/alert_kind.hpp"
#include "one_of_each.hpp"
#include "sim/transcript/script.hpp"
#include "sim/transcript/transcript_file.hpp"
#include "tests/transcripts.hpp"

using namespace stoker;
using namespace stoker::alerts;
using namespace stoker::alerts::test;

namespace {

const std::string kSource = STOKER_SOURCE_DIR;

struct Seen {
  std::optional<RenderedAlert> fired, resolved;
};

using OnAlert = std::function<void(const core::SendAlert&, const core::Intent&, WallTime)>;

// Calls `on` for each alert that a story of tests/golden sends, and for each end.
void live(const std::filesystem::path& path, const OnAlert& on) {
  sim::Script script([&on](const core::JournalRow& row) {
    for (const core::Intent& intent : row.intents)
      if (const auto* alert = std::get_if<core::SendAlert>(&intent.action))
        on(*alert, intent, row.event.wall);
  });
  const auto lived = sim::rerun_file(stoker::testing::read_whole(path), path.filename().string(),
                                     [&script](std::string_view line) -> Result<sim::LineAnswer> {
                                       sim::Words words(line);
                                       STOKER_TRY_STATUS(script.advance(words));
                                       STOKER_TRY(said, script.run(words));
                                       return sim::LineAnswer{"", said};
                                     });
  REQUIRE_MESSAGE(lived.has_value(), (lived ? "" : lived.error().message()));
}

// Of each kind the first alert and the first end that a story has, by the stories' names.
std::map<std::string, Seen> alerts_of_the_stories() {
  std::map<std::string, Seen> seen;
  for (const auto& path : stoker::testing::transcripts((kSource + "/tests/golden").c_str()))
    live(path, [&seen](const core::SendAlert& alert, const core::Intent& intent, WallTime at) {
      Seen& of = seen[alert.alert_kind];
      auto& place = alert.resolved ? of.resolved : of.fired;
      if (!place) place = render(intent.key, alert, at, at);
    });
  return seen;
}

// As a person reads it: JSON's escapes undone, quoted-printable joined.
std::string plain(std::string shown) {
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown.compare(i, 2, "=\n") == 0) {
      ++i;
    } else if (shown.compare(i, 3, "=3D") == 0) {
      out += '=';
      i += 2;
    } else if (shown.compare(i, 5, "&amp;") == 0) {
      i += 4;
    } else if (shown.compare(i, 4, "&lt;") == 0 || shown.compare(i, 4, "&gt;") == 0) {
      i += 3;
    } else if (shown.compare(i, 6, "&quot;") == 0) {
      i += 5;
    } else if (shown[i] == '\\' && i + 1 < shown.size()) {
      out += shown[++i];
    } else {
      out += shown[i];
    }
  }
  return out;
}

// Letters and digits alone: chats escape the rest, HTML too.
std::string letters(const std::string& text) {
  std::string out;
  for (const char c : text)
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) out += c;
  return out;
}

}  // namespace

TEST_CASE("kinds: every kind that a story raises -> shown as it was reviewed") {
  const auto seen = alerts_of_the_stories();
  std::string text;
  std::string missing;
  for (const core::AlertKindRow& row : core::kAlertKinds) {
    const auto found = seen.find(row.name);
    if (found == seen.end() || !found->second.fired) {
      missing += std::string(missing.empty() ? "" : ", ") + row.name;
      continue;
    }
    const RenderedAlert& fired = *found->second.fired;
    CAPTURE(row.name);
    CHECK(fired.summary.find('\n') == std::string::npos);
    text += std::string("=== ") + row.name + "\nTitle: " + title_of(fired) + "\n" + text_of(fired);
    if (const auto& end = found->second.resolved) text += "--- resolved\n" + text_of(*end);
    text += "\n";
  }
  // `stoker alerts test`: try_out.cpp
  CHECK_MESSAGE(missing == "test", "no story in tests/golden raises: " << missing);
  const std::string path = kSource + "/tests/alerts/rendered/kinds.txt";
  if (std::getenv("STOKER_REWRITE") != nullptr)
    REQUIRE(os::replace_file(path, text, os::Durability::Cached));
  const std::string differs =
      stoker::testing::difference(os::read_file(path).value_or(std::string()), text);
  CHECK_MESSAGE(differs.empty(),
                path << ": " << differs << "\n(STOKER_REWRITE=1 writes it again: review it)");
}

TEST_CASE("kinds: every kind that a working training does not end -> a story in which it ends") {
  // Sent once, open nowhere; and `stoker alerts test`.
  const std::set<std::string> never_open{"finished", "weekly_digest", "test"};
  const auto seen = alerts_of_the_stories();
  std::string endless;
  for (const core::AlertKindRow& row : core::kAlertKinds) {
    if (row.failure || never_open.contains(row.name)) continue;
    const auto found = seen.find(row.name);
    if (found == seen.end() || !found->second.resolved) endless += std::string(" ") + row.name;
  }
  CHECK_MESSAGE(endless.empty(), "no story in tests/golden ends:" << endless);
}

TEST_CASE(
    "kinds: every kind in every sink -> its title, what to do and what stoker did are there") {
  const Secrets secrets;
  const auto seen = alerts_of_the_stories();
  for (const core::SinkPolicy& policy : one_of_each(secrets)) {
    const auto sink = make_sink(policy);
    REQUIRE(sink.has_value());
    if (policy.name == "form") continue;  // shows what its template names
    for (const auto& found : seen) {
      const auto& kind = found.first;
      const auto& moments = found.second;
      CAPTURE(policy.kind);
      CAPTURE(kind);
      if (!moments.fired) continue;
      const auto request = (*sink)->request(*moments.fired, moments.fired->at);
      REQUIRE(request.has_value());
      const std::string shown = letters(plain(show(*request)));
      const std::string& reason = moments.fired->reason;
      CHECK(shown.find(letters(moments.fired->summary.substr(0, 40))) != std::string::npos);
      CHECK(shown.find(letters(reason.substr(0, 40))) != std::string::npos);
      const std::string end =
          reason.substr(reason.size() - std::min<std::size_t>(reason.size(), 40));
      CHECK(shown.find(letters(end)) != std::string::npos);
      CHECK(shown.find(letters(moments.fired->command)) != std::string::npos);
    }
  }
}

TEST_CASE("kinds: a hang with its exclusion and restart -> exactly two messages, one incident") {
  std::vector<core::SendAlert> sent;
  live(kSource + "/tests/golden/hang_one_rank.txt",
       [&sent](const core::SendAlert& alert, const core::Intent&, WallTime) {
         sent.push_back(alert);
       });
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].id == sent[1].id);
  CHECK(sent[0].alert_kind == "hang");
  CHECK(sent[0].reason.find("n02 is excluded") != std::string::npos);
  CHECK(sent[0].report.find("n02") != std::string::npos);
  CHECK_FALSE(sent[0].resolved);
  CHECK(sent[1].resolved);
}
