// One list of a JSON answer, an item at a time: the same in pieces of every size; torn, crooked and
// hostile text is an error.
#include "slurm/rest/json_items.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace stoker;
using namespace stoker::slurm;

namespace {

struct Read {
  std::vector<std::string> items;
  std::optional<Error> error;
  Json document;
};

Read read(std::string_view text, std::size_t piece = 1u << 20) {
  Read out;
  JsonItems items("jobs", [&out](const JsonItem& item) {
    const auto id = item.number("job_id");
    out.items.push_back(fmt::format("{}:{}", id.value_or(0), item.text("name")));
    return ok();
  });
  while (!text.empty()) {
    const Status good = items.feed(text.substr(0, piece));
    if (!good) {
      out.error = good.error();
      return out;
    }
    text.remove_prefix(std::min(piece, text.size()));
  }
  auto document = items.finish();
  if (document)
    out.document = *document;
  else
    out.error = document.error();
  return out;
}

const std::string kAnswer = R"({"meta": {"jobs": [1, 2], "a": "}]"},
  "errors": [], "jobs": [
    {"job_id": 7, "name": "a\"}],{\\", "resources": {"job_id": 9, "jobs": [{}]},
     "nodes": ["x", "}"]},
    {"name" : "b" , "job_id" : {"set": true, "infinite": false, "number": 8}},
    {}
  ], "last": null})";

}  // namespace

TEST_CASE("JSON items: pieces of every size -> the same items, and the document without them") {
  const std::vector<std::string> expected{"7:a\"}],{\\", "8:b", "0:"};
  for (std::size_t piece = 1; piece <= kAnswer.size(); ++piece) {
    CAPTURE(piece);
    const Read got = read(kAnswer, piece);
    REQUIRE(!got.error);
    CHECK(got.items == expected);
    CHECK(got.document.at("jobs").empty());
    CHECK(got.document.at("meta").at("a") == "}]");
    CHECK(got.document.contains("last"));
  }
}

TEST_CASE("JSON items: quotes and backslashes at every place of what is read at once") {
  for (std::size_t before = 0; before <= 140; ++before) {
    const std::string x(before, 'x');
    std::string pairs;
    for (std::size_t i = 0; i < before; ++i) pairs += R"(\\)";
    for (const std::string& value :
         {x + R"(\", \"job_id\": 9})", x + R"(\\)", x + R"(\\\"}, {)", x + "]}", pairs})
      for (const std::size_t piece : {1, 3, 64, 100'000}) {
        CAPTURE(value);
        CAPTURE(piece);
        const std::string item = R"({"a": ")" + value + R"(", "x\"job_id": 9, "job_id": 7, )" +
                                 R"("b": [{"name": "c"}], "name": "b"})";
        const Read got = read(R"({"jobs": [)" + item + "," + item + "]}", piece);
        CHECK(got.items == std::vector<std::string>{"7:b", "7:b"});
      }
  }
}

TEST_CASE("JSON items: an answer cut off anywhere -> an error") {
  for (std::size_t end = 0; end < kAnswer.size(); ++end) {
    CAPTURE(end);
    CHECK(read(std::string_view(kAnswer).substr(0, end)).error.has_value());
  }
}

TEST_CASE("JSON items: no such document -> an error that says so") {
  for (const char* text :
       {"", "[]", "null", "jobs", "<html>502</html>", R"({"jobs": [1]})", R"({"jobs": ["x"]})",
        R"({"jobs": [{} {}]})", R"({"jobs": [{},,{}]})", R"({"jobs": [{},]})", R"({"jobs": [,{}]})",
        R"({"jobs": [{}], "jobs": [{}]})", R"({"jobs": [{]})", R"({"jobs": [[{}]]})",
        R"({"jobs": []} {"jobs": []})", R"({"jobs": []}})", R"({"jobs": [] "errors": []})",
        R"({"jobs": [})"}) {
    CAPTURE(text);
    CHECK(read(text).error.has_value());
  }
  CHECK(read(R"({"jobs": [{"a": )" + std::string(100, '[') + "1").error.has_value());
  CHECK(read(R"({"jobs": [{"a": ")" + std::string(5u << 20, 'x')).error.has_value());
  CHECK(read(R"({"a": ")" + std::string(2u << 20, 'x')).error.has_value());
}

TEST_CASE("JSON items: a list that is missing is left to who wants it") {
  const Read got = read(R"({"errors": [{"error": "Unspecified error"}]})");
  REQUIRE(!got.error);
  CHECK(got.items.empty());
  CHECK(!got.document.contains("jobs"));
}

TEST_CASE("JSON items: strange values -> none, and nothing breaks") {
  std::optional<JsonItem> kept;
  JsonItems items("jobs", [&kept](const JsonItem& item) {
    kept = item;
    return ok();
  });
  REQUIRE(items
              .feed(R"({"jobs": [{"a": 1 2, "b": -5, "c": 1e3, "d": "\u00fc", "e": nul, "f": [1,)"
                    R"("g": 18446744073709551616, "h": 4294967294}]})")
              .has_value() == false);
  JsonItems again("jobs", [&kept](const JsonItem& item) {
    kept = item;
    return ok();
  });
  REQUIRE(again
              .feed(R"({"jobs": [{"a": 1 2, "b": -5, "c": 1e3, "d": "\u00fc", "e": nul, )"
                    R"("g": 18446744073709551616, "h": 4294967294, "i": "x" "y", "b": 7}]})")
              .has_value());
  REQUIRE(kept.has_value());
  for (const char* key : {"a", "b", "c", "d", "e", "g", "h", "i", "z", ""}) {
    CAPTURE(key);
    CHECK(!kept->number(key));
  }
  CHECK(kept->text("d") == "ü");
  CHECK(kept->text("i").empty());
  CHECK(kept->text("a").empty());
}
