// Every signature is tested by its own data: the example is found by it, the counter-example is
// not.
#include "diagnose/match/signature.hpp"

#include <doctest/doctest.h>

#include "diagnose/embedded_data.hpp"
#include "diagnose/input/line_origin.hpp"
#include "diagnose/knowledge.hpp"
#include "diagnose/match/pattern_set.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

bool finds(const PatternSet& set, unsigned which, const std::string& line) {
  std::vector<PatternSet::Group> groups;
  bool found = false;
  PatternSet::Scratch scratch(set);
  set.scan(line, scratch, [&](std::uint64_t, std::string_view text, std::span<const unsigned> ids) {
    for (const unsigned id : ids)
      if (id == which)
        found =
            set.match(which, text, groups) || set.match(which, read_origin(text).message, groups);
  });
  return found;
}

std::shared_ptr<const Knowledge> ours() {
  configs::Diagnostics errors;
  return load_knowledge({}, errors);
}

}  // namespace

TEST_CASE("signatures: each one's example -> found; its counter-example -> not found") {
  const auto knowledge = ours();
  std::vector<std::string> patterns;
  for (const auto& s : knowledge->signatures) patterns.push_back(s.pattern);
  const auto set = PatternSet::compile(patterns);
  REQUIRE_MESSAGE(set.has_value(), (set.has_value() ? "" : set.error().message()));
  for (unsigned i = 0; i < knowledge->signatures.size(); ++i) {
    const Signature& s = knowledge->signatures[i];
    CAPTURE(s.name);
    CHECK(finds(*set, i, s.example));
    CHECK_FALSE(finds(*set, i, s.counter_example));
    CHECK(s.source.starts_with("https://"));
  }
  CHECK(knowledge->signatures.size() >= 60);
}

TEST_CASE("signatures: every class of failure that a line can tell -> at least one signature") {
  const auto knowledge = ours();
  std::set<FailureClass> told;
  for (const auto& s : knowledge->signatures) told.insert(s.failure_class);
  for (std::size_t i = 0; i < kFailureClasses; ++i) {
    const auto c = static_cast<FailureClass>(i);
    if (c == FailureClass::LossSpike || c == FailureClass::Hang) continue;  // told by numbers, time
    CAPTURE(EnumNames<FailureClass>::names[i]);
    CHECK(told.contains(c));
  }
}

TEST_CASE("signatures: a site's file with a mistake -> named by line, its signatures left out") {
  configs::Diagnostics errors;
  const std::string wrong =
      "family: site\nsignatures:\n  - name: ours\n    class: cuda_oops\n    pattern: '(unclosed'\n"
      "    source: https://site\n    example: a\n    counter_example: b\n";
  const auto knowledge = load_knowledge({{"site.yaml", wrong}}, errors);
  REQUIRE(errors.size() >= 2);
  CHECK(errors[0].at.line == 4);
  CHECK(errors[1].at.line == 5);
  CHECK(knowledge->signatures.size() == ours()->signatures.size());
}

TEST_CASE("signatures: a site's pattern that is hot, contradicts itself or never speaks -> named") {
  const auto errors_of = [](const std::string& pattern, const std::string& example) {
    configs::Diagnostics errors;
    load_knowledge({{"site.yaml",
                     "family: site\nsignatures:\n  - name: ours\n    class: fs_stale\n"
                     "    pattern: '" +
                         pattern +
                         "'\n    source: https://site\n"
                         "    example: '" +
                         example + "'\n    counter_example: fine\n"}},
                   errors);
    std::string all;
    for (const auto& error : errors) all += error.message + "\n";
    return all;
  };
  CHECK(errors_of("wekafs: gone", "wekafs: gone") == "");
  CHECK(errors_of("loss", "loss of the link").find("is hot") != std::string::npos);
  CHECK(errors_of("x*", "x").find("matches every line") != std::string::npos);
  CHECK(errors_of("wekafs: gone", "weka: gone").find("is not found") != std::string::npos);
  CHECK(errors_of("fine|wekafs", "wekafs").find("counter_example: is found") != std::string::npos);
  std::string large = "wekafs";
  for (int i = 0; i < 14; ++i) large += "([a-z]{1,900}|[0-9]{1,900})";
  CHECK(errors_of(large, "wekafs").find("too large") != std::string::npos);
  CHECK(errors_of("GPU 3 has gone",
                  "GPU 3 has gone: RuntimeError: CUDA out of memory. Tried to "
                  "allocate 2.00 GiB")
            .find("never speaks") != std::string::npos);
}

TEST_CASE("signatures: a site's file -> added behind ours") {
  configs::Diagnostics errors;
  const std::string file =
      "family: site\nsignatures:\n  - name: weka\n    class: fs_stale\n    pattern: 'wekafs: "
      "gone'\n"
      "    source: https://site\n    example: 'wekafs: gone'\n    counter_example: b\n";
  const auto knowledge = load_knowledge({{"site.yaml", file}}, errors);
  CHECK(errors.empty());
  CHECK(knowledge->signatures.back().name == "weka");
}
