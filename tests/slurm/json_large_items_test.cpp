// Items that a user made large: what is kept of them, whose they are, and that nothing else of the
// answer is lost.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "slurm/rest/job_rows.hpp"

using namespace stoker;
using namespace stoker::slurm;

namespace {

constexpr std::size_t kLongest = JsonItems::kLongestString;

std::string times(std::size_t count, std::string_view text) {
  std::string out;
  out.reserve(count * text.size());
  while (count-- > 0) out += text;
  return out;
}

struct Read {
  std::vector<std::string> items;
  std::optional<Error> error;
  std::size_t largest = 0;  // of an item's text
};

Read read(std::string_view text, std::size_t piece, const JsonItems::IsAnothers& is_anothers = {}) {
  Read out;
  JsonItems items(
      "jobs",
      [&out](const JsonItem& item) {
        out.largest = std::max(out.largest, item.whole().size());
        out.items.push_back(fmt::format("{}:{}{}{}", item.number("job_id").value_or(0),
                                        item.text("name"), item.is_cut("name") ? "+" : "",
                                        item.is_cut("command") ? "*" : ""));
        return ok();
      },
      is_anothers);
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    if (const Status good = items.feed(text.substr(0, piece)); !good) {
      out.error = good.error();
      return out;
    }
  if (const auto document = items.finish(); !document) out.error = document.error();
  return out;
}

std::string job(std::string_view members, std::string_view user = "alice") {
  return fmt::format(
      R"({{"job_id": 7, "command": "/gpfs/tr11/job.sh", {} "user_id": 1000, "name": "tr11",
          "job_state": "RUNNING", "nodes": "n[1-2]", "user_name": "{}"}})",
      members, user);
}

std::string jobs(const std::vector<std::string>& items) {
  return fmt::format(R"({{"jobs": [{}]}})", fmt::join(items, ","));
}

Result<std::vector<QueueRow>> rows_of(const std::string& text, std::size_t piece = 16u << 10) {
  const QueueQuestion question{"alice", 0, {RunName("tr11")}, {"/gpfs/tr11"}};
  JobRows rows(question);
  JsonItems items(
      "jobs", [&rows](const JsonItem& one) { return rows.add(one); },
      [&rows](const JsonItem& one) { return rows.is_anothers(one); });
  for (std::string_view rest = text; !rest.empty();
       rest.remove_prefix(std::min(piece, rest.size())))
    STOKER_TRY_STATUS(items.feed(rest.substr(0, piece)));
  if (auto document = items.finish(); !document) return fail(document.error());
  return rows.take();
}

}  // namespace

TEST_CASE("large items: a stranger's megabytes of arguments -> our rows as if they were short") {
  const std::string big = times(900'000, R"(\u0001)");
  for (const std::string& theirs :
       {job(R"("comment": ")" + big + R"(",)", "mallory"),
        job(R"("argv": [")" + big + R"(", ")" + big + R"("],)", "mallory"),
        job('"' + big + R"(": 1,)", "mallory"),
        job(R"("a": {"b": [")" + big + R"("]},)", "mallory")})
    for (const std::size_t piece : {1u << 12, 1u << 14, 16u << 20}) {
      const auto rows = rows_of(jobs({theirs, job(""), theirs}), piece);
      REQUIRE(rows.has_value());
      CHECK(rows->size() == 1);
    }
}

TEST_CASE("large items: our own job with such arguments is known by its script and its name") {
  const std::string text =
      R"({"jobs": [{"job_id": 8, "name": "other", "user_name": "alice", "user_id": 1000,
                    "job_state": "PENDING", "command": "/gpfs/tr11/x.sh )" +
      times(900'000, R"(\u0001)") + R"(", "comment": "tr11-1-0badcafe"}]})";
  const auto rows = rows_of(text);
  REQUIRE(rows.has_value());
  REQUIRE(rows->size() == 1);
  CHECK(rows->front().command.starts_with("/gpfs/tr11/x.sh \x01"));
  CHECK(rows->front().command.size() < kLongest);
  CHECK(rows->front().comment == "tr11-1-0badcafe");
  // A part of a list of nodes, or of tasks, is another list: not used.
  const auto torn = rows_of(jobs({job(R"("nodes": ")" + times(100'000, "n1,") + R"(n2",)")}));
  REQUIRE_FALSE(torn.has_value());
  CHECK(torn.error().what.find("nodes") != std::string::npos);
}

TEST_CASE("large items: what is kept is the same in every piece, and no character is torn") {
  const std::vector<std::pair<std::string, std::string>> characters{
      {"x", "x"},    {R"(\")", "\""},          {R"(\\)", "\\"}, {R"(\u00fc)", "ü"},
      {"ü", "ü"},    {R"(\ud83d\ude00)", "😀"}, {"😀", "😀"},      {R"(\uD83D\uDE00)", "😀"},
      {"],}", "],}"}};
  for (const auto& character : characters)
    for (std::size_t before = 0; before < 14; ++before) {
      const std::string &written = character.first, &meant = character.second;
      const std::string head(before, 'h');
      const std::string value = head + times(kLongest / written.size() + 20, written);
      const std::string text =
          jobs({R"({"name": ")" + value + R"(", "job_id": 7})", R"({"job_id": 8, "name": "b"})"});
      const std::size_t fits = (kLongest - before) / written.size();
      CAPTURE(written);
      CAPTURE(before);
      for (const std::size_t piece : {61, 64, 4093, 16384, 1 << 20}) {
        const Read got = read(text, piece);
        REQUIRE(!got.error);
        REQUIRE(got.items.size() == 2);
        // "],}" has no escape: three characters, of which the end may hold one or two.
        const std::string expected =
            "7:" + (written == "],}" ? value.substr(0, kLongest) : head + times(fits, meant)) + "+";
        CHECK(got.items.front() == expected);
        CHECK(got.items.back() == "8:b");
      }
    }
}

TEST_CASE("large items: one byte decides, wherever the pieces end") {
  for (const std::size_t length : {kLongest - 1, kLongest, kLongest + 1, kLongest + 63})
    for (const std::size_t blanks : {0, 1, 17, 63})
      for (const std::size_t piece : {64, 1000, 1 << 20}) {
        CAPTURE(length);
        CAPTURE(blanks);
        CAPTURE(piece);
        const Read got = read(jobs({R"({)" + std::string(blanks, ' ') + R"("name": ")" +
                                    std::string(length, 'x') + R"(", "job_id": 7})"}),
                              piece);
        REQUIRE(!got.error);
        REQUIRE(got.items.size() == 1);
        const std::string kept(std::min(length, kLongest), 'x');
        CHECK(got.items.front() == "7:" + kept + (length > kLongest ? "+" : ""));
      }
}

TEST_CASE("large items: a very long key -> not taken for a key that is wanted") {
  for (const char* end : {"", R"(\")", R"(\\)", R"(\"name)"}) {
    const std::string key = times(kLongest / 2 + 40, R"(\")") + end;
    const Read got =
        read(jobs({'{' + ('"' + key + R"(": "no", "job_id": 7, "name": "b"})")}), 4096);
    CHECK(got.items == std::vector<std::string>{"7:b"});
    CHECK(got.largest < kLongest + 100);
  }
}

TEST_CASE("large items: too many members -> left out when another's, else the answer is refused") {
  std::string many;
  for (int i = 0; i < 600'000; ++i) many += fmt::format(R"("k{}": {{"user_name": "x"}},)", i);
  const auto is_alices = [](const JsonItem& item) { return item.text("user_name") == "alice"; };
  for (const std::size_t piece : {16u << 10, 1u << 20, 64u << 20}) {
    CAPTURE(piece);
    // The user stands at the end, as slurmrestd writes it, or before.
    for (const std::string& theirs :
         {job(many, "mallory"), R"({"user_name": "mallory", )" + many + R"("job_id": 9})"}) {
      const auto rows = rows_of(jobs({theirs, job(""), theirs, job("")}), piece);
      REQUIRE(rows.has_value());
      CHECK(rows->size() == 2);
    }
    for (const std::string& unknown :
         {job(many), job(many, ""), R"({"job_id": 9, )" + many + R"("a": "\"user_name"})"}) {
      const auto rows = rows_of(jobs({unknown, job("")}), piece);
      REQUIRE_FALSE(rows.has_value());
      CHECK(rows.error().what.find("too large") != std::string::npos);
    }
    CHECK(read(jobs({job(many)}), piece).error.has_value());
    CHECK(read(jobs({job(many)}), piece, is_alices).items.empty());
  }
}

TEST_CASE("large items: a member that is cut through by the limit gives no key of its own") {
  // Of this item the beginning is forgotten in the middle of a key that then seems to be another.
  const std::string member = R"("a\"user_name": "mallory",)";
  for (std::size_t blanks = 0; blanks < member.size(); ++blanks) {
    CAPTURE(blanks);
    const std::string one = '{' + std::string(blanks, ' ') + times(170'000, member) +
                            R"("job_id": 9, "user_name": "alice"})";
    const auto rows = rows_of(jobs({one}));
    REQUIRE_FALSE(rows.has_value());
    CHECK(rows.error().what.find("too large") != std::string::npos);
  }
}

TEST_CASE("large items: deep, cut off or without an end -> an error, and little is kept") {
  const std::string deep = job(R"("a": )" + times(60, R"({"a": )") + '"' +
                                   std::string(5u << 20, 'x') + '"' + times(60, "}") + ',',
                               "mallory");
  const auto rows = rows_of(jobs({deep, job("")}));
  REQUIRE(rows.has_value());
  CHECK(rows->size() == 1);
  CHECK(!rows_of(jobs({job(R"("a": )" + times(70, R"({"a": )"))})).has_value());
  for (const std::string& end : {std::string("x"), std::string("x\\"), std::string("x\", \"b")})
    CHECK(!rows_of(R"({"jobs": [{"a": ")" + std::string(5u << 20, 'x') + end).has_value());
}

TEST_CASE("large items: many of them, one after the other") {
  std::vector<std::string> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(job(R"("comment": ")" + times(1'100'000, R"(\\\")") + R"(",)", "mallory"));
    all.push_back(job(R"("comment": "a\"b",)"));
  }
  const auto rows = rows_of(jobs(all), 16384);
  REQUIRE(rows.has_value());
  REQUIRE(rows->size() == 12);
  for (const QueueRow& row : *rows) CHECK(row.comment == "a\"b");
}
