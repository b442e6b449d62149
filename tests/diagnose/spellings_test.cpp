// How else the same failures are printed: other versions, other programs, other prefixes. Written
// after the sources of the programs, not after captured logs. The small logs stand in spellings/:
// "=== CLASS [node=NAME] [rank=N] [line=N]" and the lines of the log, `line` the root's.
#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <map>

#include "common/os/files.hpp"
#include "detector.hpp"
#include "diagnose/input/line_origin.hpp"
#include "diagnose/match/line_sieve.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

struct Spelling {
  std::string place, expected, text;  // place: file:line
  std::map<std::string, std::string> said;
};

std::string_view next_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const auto word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

Spelling begin(std::string_view header, const std::string& place) {
  Spelling made{place, std::string(next_word(header)), {}, {}};
  for (auto word = next_word(header); !word.empty(); word = next_word(header)) {
    const auto equals = word.find('=');
    REQUIRE_MESSAGE(equals != std::string_view::npos, place);
    made.said[std::string(word.substr(0, equals))] = word.substr(equals + 1);
  }
  return made;
}

std::vector<Spelling> spellings() {
  namespace fs = std::filesystem;
  std::vector<Spelling> all;
  for (const auto& file : fs::directory_iterator(STOKER_SOURCE_DIR "/tests/diagnose/spellings")) {
    const auto text = os::read_file(file.path().string());
    REQUIRE(text.has_value());
    std::string_view rest = *text;
    for (int number = 1; !rest.empty(); ++number) {
      const auto line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (line.starts_with("=== "))
        all.push_back(
            begin(line.substr(4), file.path().filename().string() + ":" + std::to_string(number)));
      else
        (all.back().text += line) += '\n';
    }
  }
  return all;
}

}  // namespace

TEST_CASE("spellings: one small log each -> its class, and its place where the log tells it") {
  const auto all = spellings();
  CHECK(all.size() > 500);
  for (const auto& spelling : all) {
    const auto log = scan_text(detector(), spelling.text, "log");
    const auto d = find_cause({log}, detector().knowledge().causes);
    CAPTURE(spelling.place);
    CAPTURE(spelling.text);
    CHECK(name_of(d.failure_class) == std::string_view(spelling.expected));
    for (const auto& [key, value] : spelling.said) {
      if (key == "node")
        CHECK(std::find(d.nodes.begin(), d.nodes.end(), value) != d.nodes.end());
      else if (key == "rank")
        CHECK(std::find(d.ranks.begin(), d.ranks.end(), std::stoul(value)) != d.ranks.end());
      else if (key == "line")
        CHECK((d.root ? d.root->line : 0) == std::stoul(value));
      else
        FAIL_CHECK("the log says what no place is: " << spelling.place);
    }
  }
}

TEST_CASE("spellings: what an expression matches in a line, the block pass offers for that line") {
  std::string block;
  for (const auto& spelling : spellings()) block += spelling.text;
  LineSieve sieve = detector().sieve();
  std::vector<std::vector<unsigned>> offered;
  std::uint64_t lines = sieve.block(block, [&](const LineSieve::Line& line) {
    if (offered.size() <= line.number) offered.resize(line.number + 1);
    offered[line.number].assign(line.ids.begin(), line.ids.end());
  });
  offered.resize(lines);
  const auto signatures = static_cast<unsigned>(detector().knowledge().signatures.size());
  std::vector<PatternSet::Group> groups;
  std::string_view rest = block;
  for (const auto& ids : offered) {
    const auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    for (unsigned id = 0; id < signatures; ++id) {
      if (!detector().patterns().match(id, line, groups) &&
          !detector().patterns().match(id, read_origin(line).message, groups))
        continue;
      CAPTURE(std::string(line));
      CAPTURE(detector().knowledge().signatures[id].name);
      CHECK(std::find(ids.begin(), ids.end(), id) != ids.end());
    }
  }
}
