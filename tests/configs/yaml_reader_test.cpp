// The strict reader: each refusal with its position, all of them at once, and where each value came
// from.
#include "configs/schema/yaml_reader.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::configs;

namespace {

enum class Kind { Local, Slurm };

struct Sample {
  std::string run;
  Kind kind = Kind::Local;
  std::uint32_t nodes = 1;
  double share = 0.05;
  std::uint64_t bytes = 0;
  Duration floor = 60s;
  bool on = true;
  std::optional<std::string> begin;
  std::vector<std::string> extra;
  std::map<std::string, std::string> environment;
};

std::vector<std::string> read_sample(const std::string& text, Sample& s,
                                     std::string* effective = nullptr) {
  YamlReader reader(text, "run.yaml");
  reader.root([&](MapReader& m) {
    m.require("run", s.run);
    m.map("scheduler", [&](MapReader& x) {
      x.read("kind", s.kind);
      x.read("nodes", s.nodes);
      x.check("nodes", s.nodes > 0, "must be at least 1");
      x.read("begin", s.begin);
      x.read("extra", s.extra);
    });
    m.read_share("share", s.share);
    m.read_size("bytes", s.bytes);
    m.read("floor", s.floor);
    m.read("on", s.on);
    m.read("environment", s.environment);
  });
  if (effective != nullptr) *effective = reader.render_effective();
  std::vector<std::string> out;
  for (const Diagnostic& d : reader.errors()) out.push_back(d.text());
  return out;
}

std::vector<std::string> errors_of(const std::string& text) {
  Sample s;
  return read_sample(text, s);
}

}  // namespace

namespace stoker {
template <>
struct EnumNames<Kind> {
  static constexpr std::array names{"local", "slurm"};
};
}  // namespace stoker

TEST_CASE("yaml reader: a full file -> every type is read") {
  Sample s;
  const auto errors = read_sample(
      "run: hello\nscheduler: {kind: slurm, nodes: 1_000, begin: now, extra: [--a, '2']}\n"
      "share: 2.5%\nbytes: 512MiB\nfloor: 1h30min\non: false\nenvironment: {NCCL: WARN, N: 3}\n",
      s);
  CHECK(errors.empty());
  CHECK(s.run == "hello");
  CHECK(s.kind == Kind::Slurm);
  CHECK(s.nodes == 1000);
  CHECK(s.begin == std::optional<std::string>("now"));
  CHECK(s.extra == std::vector<std::string>{"--a", "2"});
  CHECK(s.share == doctest::Approx(0.025));
  CHECK(s.bytes == 512ull << 20);
  CHECK(s.floor == 90min);
  CHECK_FALSE(s.on);
  CHECK(s.environment == std::map<std::string, std::string>{{"N", "3"}, {"NCCL", "WARN"}});
}

TEST_CASE("yaml reader: many mistakes -> all at once, by position, with the nearest name") {
  const auto errors = errors_of(
      "scheduler:\n  kind: slrum\n  nodes: -1\n  nodse: 2\nfloor: 3 parsecs\non: yes\n"
      "bytes: 12\nshare: 300%\n");
  REQUIRE(errors.size() == 8);
  CHECK(errors[0] == "run.yaml:1:1: error: \"run\" is missing");
  CHECK(errors[1] ==
        "run.yaml:2:9: error: kind: expected one of local, slurm, got \"slrum\"; did you mean "
        "\"slurm\"?");
  CHECK(errors[2].find("run.yaml:3:10: error: nodes: expected a whole number") == 0);
  CHECK(errors[3] == "run.yaml:4:3: error: unknown key \"nodse\"; did you mean \"nodes\"?");
  CHECK(errors[4].find("run.yaml:5:8: error: floor: expected a duration") == 0);
  CHECK(errors[5].find("run.yaml:6:5: error: on: expected true or false") == 0);
  CHECK(errors[6].find("run.yaml:7:8: error: bytes: expected a size") == 0);
  CHECK(errors[7].find("run.yaml:8:8: error: share: expected a share") == 0);
}

TEST_CASE("yaml reader: duplicate, merge, tagged and odd keys -> refused with their position") {
  CHECK(errors_of("run: a\nrun: b\n") ==
        std::vector<std::string>{
            "run.yaml:2:1: error: duplicate key \"run\": it is already in line 1"});
  CHECK(errors_of("run: a\nscheduler:\n  <<: {nodes: 2}\n") ==
        std::vector<std::string>{
            "run.yaml:3:3: error: merge keys (<<) are not supported: write the keys out"});
  CHECK(errors_of("run: !!str a\n").at(0).find("tags are not used here") != std::string::npos);
  CHECK(errors_of("run: a\n[1, 2]: b\n").at(0).find("a key must be plain text") !=
        std::string::npos);
  CHECK(errors_of("run: a\n---\nrun: b\n").at(0).find("a second document") != std::string::npos);
}

TEST_CASE("yaml reader: no map at all -> one clear error") {
  CHECK(errors_of("") == std::vector<std::string>{"run.yaml:1:1: error: the file is empty"});
  CHECK(errors_of("# only a comment\n").size() == 1);
  CHECK(errors_of("- 1\n- 2\n") ==
        std::vector<std::string>{"run.yaml:1:1: error: expected a map, got a list"});
  CHECK(errors_of("run: [unclosed\n").size() == 1);
  CHECK(errors_of(std::string("run: a\n\0", 8)).at(0).find("NUL byte") != std::string::npos);
}

TEST_CASE("yaml reader: wrong shapes -> expected and got") {
  const auto errors = errors_of("run: {a: b}\nscheduler: 3\nenvironment: [1]\non: null\n");
  REQUIRE(errors.size() == 4);
  CHECK(errors[0] == "run.yaml:1:6: error: run: expected text, got a map");
  CHECK(errors[1] == "run.yaml:2:12: error: scheduler: expected a map, got a single value");
  CHECK(errors[2] == "run.yaml:3:14: error: environment: expected a map, got a list");
  CHECK(errors[3] == "run.yaml:4:5: error: on: expected true or false, got nothing");
}

TEST_CASE("yaml reader: a bomb of aliases, depth or size -> stopped, no memory spent") {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string p(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [*" + p;
    for (int i = 0; i < 8; ++i) bomb += ", *" + p;
    bomb += "]\n";
  }
  const auto errors = errors_of(bomb);
  REQUIRE_FALSE(errors.empty());
  CHECK(errors[0].find("more than") != std::string::npos);
  CHECK(errors_of("run: " + std::string(100, '[') + std::string(100, ']'))
            .at(0)
            .find("nested deeper than 32 levels") != std::string::npos);
  CHECK(errors_of(std::string(100000, '[')).size() >= 1);
  CHECK(errors_of("run: " + std::string((1u << 20) + 1, 'x')).at(0).find("larger than") !=
        std::string::npos);
  CHECK(errors_of("run: &r [*r]\n").size() >= 1);
}

TEST_CASE("yaml reader: bytes that are no text -> named with their place") {
  CHECK(errors_of("run: a\nbytes: \xff\xfe\n") ==
        std::vector<std::string>{"run.yaml:2:8: error: not UTF-8 text: save the file as UTF-8"});
  CHECK(errors_of("run: h\xe4llo\n").at(0).find("1:7: error: not UTF-8") != std::string::npos);
  CHECK(errors_of("run: \xed\xa0\x80\n").at(0).find("not UTF-8") != std::string::npos);
  CHECK(errors_of("run: \xf0\x9f\x9a").at(0).find("not UTF-8") != std::string::npos);
  CHECK(errors_of(std::string("\xff\xfer\0u\0n\0", 8)).at(0).find("UTF-16") != std::string::npos);
  CHECK(errors_of("\xef\xbb\xbfrun: hello\n").empty());
  CHECK(errors_of("run: h\xc3\xa4llo \xf0\x9f\x9a\x82\n").empty());
  CHECK(errors_of("run: \"\\x1b[31m\"\n").at(0).find("a control character") != std::string::npos);
  CHECK(errors_of("run: \"a\\0b\"\n").at(0).find("a control character") != std::string::npos);
}

TEST_CASE("yaml reader: tabs, an open quote, too deep -> one line that says so") {
  const auto tabs = errors_of("run: a\nscheduler:\n\tkind: local\n\tnodes: 2\n");
  REQUIRE(tabs.size() == 1);
  CHECK(tabs[0].find("run.yaml:3:") == 0);
  CHECK(tabs[0].find("indented with a tab") != std::string::npos);
  CHECK(
      errors_of("share: 5%\nrun: \"a\nscheduler: {nodes: 2}\n") ==
      std::vector<std::string>{"run.yaml:2:6: error: the quote that begins here is never closed"});
  CHECK(errors_of("run: 'it''s'\n").empty());
  CHECK(errors_of("run: \"a\\\"b\"\n").empty());
  for (const char* opening : {"- ", "{a: ", "? ", "[", "a:\n "})
    CHECK_MESSAGE(errors_of([&] {
                    std::string text = "x: ";
                    for (int i = 0; i < 5000; ++i) text += opening;
                    return text;
                  }())
                          .size() == 1,
                  opening);
  CHECK(
      errors_of("run: a\nscheduler: {nodes: 99999999999999999999}\n").at(0).find("is too large") !=
      std::string::npos);
}

TEST_CASE("yaml reader: effective configuration -> every value with its origin, readable again") {
  Sample s;
  std::string effective;
  REQUIRE(read_sample("run: hello\nscheduler:\n  nodes: 2\n  extra: [a]\n", s, &effective).empty());
  CHECK(effective.find("run: hello") == 0);
  CHECK(effective.find("# run.yaml:1\n") != std::string::npos);
  CHECK(effective.find("  nodes: 2") != std::string::npos);
  CHECK(effective.find("# run.yaml:3\n") != std::string::npos);
  CHECK(effective.find("  kind: local ") != std::string::npos);
  CHECK(effective.find("# default\n") != std::string::npos);
  CHECK(effective.find("floor: 1min ") != std::string::npos);
  Sample again;
  CHECK(read_sample(effective, again).empty());
  CHECK(again.nodes == 2);
  CHECK(again.extra == s.extra);
}

TEST_CASE("yaml scalars: nearest name -> only when it could have been meant") {
  CHECK(nearest_name("tiem_limit", {"time_limit", "nodes"}) == "time_limit");
  CHECK(nearest_name("xyz", {"time_limit", "nodes"}).empty());
  CHECK(parse_count("1__0").has_value() == false);
  CHECK(parse_count("18446744073709551616").has_value() == false);
  CHECK(parse_real("nan").has_value() == false);
  CHECK(parse_size("1.5GiB").value() == 1610612736u);
  CHECK(format_size(512u << 20) == "512MiB");
  CHECK(format_share(0.05) == "5%");
}
