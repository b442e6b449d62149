// Hashes, times, hostlists and JSON: known values, and what hostile text is answered with.
#include <cmath>
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "common/hash.hpp"
#include "common/hostlist.hpp"
#include "common/json.hpp"
#include "common/optional_name.hpp"
#include "common/remedy.hpp"
#include "common/time.hpp"
#include "tests/folder.hpp"

using namespace stoker;

namespace {

std::string expanded(std::string_view text) {
  const auto nodes = expand_hostlist(text);
  if (!nodes) return "error: " + nodes.error().message();
  std::string joined;
  for (const NodeName& node : *nodes) joined += (joined.empty() ? "" : " ") + node.text;
  return joined;
}

struct Sample {
  int number = 7;
  std::optional<std::string> text;
  Duration duration{};
  STOKER_FIELDS(Sample, number, text, duration)
};

}  // namespace

TEST_CASE("hash: a FIFO in a file's place -> refused at once, without waiting for a writer") {
  const stoker::testing::Folder folder;
  REQUIRE(::mkfifo((folder / "shard").c_str(), 0600) == 0);
  CHECK(xxh3_64_file(folder / "shard").error().what == "not a regular file");
  CHECK(xxh3_64_file(folder.write("file", "abc")).value() == xxh3_64("abc"));
}

TEST_CASE("hash: the check values of RFC 3720 and of XXH3, whole and in pieces") {
  CHECK(crc32c("123456789") == 0xe3069283U);
  CHECK(crc32c("56789", crc32c("1234")) == 0xe3069283U);
  CHECK(hex64(xxh3_64("")) == "2d06800538d394c2");
  Xxh3Stream stream;
  stream.update("stok", 4);
  stream.update("er", 2);
  CHECK(stream.digest() == xxh3_64("stoker"));
  CHECK(hex32(0xab) == "000000ab");
}

TEST_CASE("time: durations as operators write them -> nanoseconds; nonsense -> an error") {
  CHECK(*parse_duration("90s") == 90s);
  CHECK(*parse_duration("1h30min") == 90min);
  CHECK(*parse_duration("1.5h") == 90min);
  CHECK(*parse_duration("250ms") == 250ms);
  CHECK(*parse_duration("7d") == 168h);
  for (const char* bad : {"", "s", "10", "-5s", "5 parsecs", "1e999h", "nan s", "99999999999d"})
    CHECK_FALSE_MESSAGE(parse_duration(bad).has_value(), std::string(bad));
  CHECK(format_duration(26h + 3min) == "1d 2h");
  CHECK(format_duration(10min) == "10min");
  CHECK(format_duration(3200ms) == "3.2s");
  CHECK(format_duration(40ms) == "40ms");
  CHECK(format_duration(-90s) == "-1min 30s");
}

TEST_CASE("time: lengths that no clock has -> the longest there is, never an overflow") {
  CHECK(from_seconds(1e300) == Duration::max());
  CHECK(from_seconds(-1e300) == -Duration::max());
  CHECK(from_seconds(std::nan("")) == Duration{});
  CHECK(from_seconds(1.5) == 1500ms);
  CHECK(format_duration(Duration::max()) == "106751d 23h");
  CHECK(format_duration(Duration::min()) == "-106751d 23h");
}

TEST_CASE("time: RFC 3339 -> there and back; other zones and impossible dates") {
  const auto time = parse_rfc3339("2026-05-01T03:56:11Z");
  REQUIRE(time);
  CHECK(format_rfc3339(*time) == "2026-05-01T03:56:11Z");
  CHECK(format_rfc3339(*time + 250ms, true) == "2026-05-01T03:56:11.250Z");
  for (const char* bad :
       {"", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-05-01T24:00:00Z", "2026-05-01",
        "2026-05-01T03:56:11Zx", "1969-12-31T23:59:59Z", "3024-08-30T11:43:14Z"})
    CHECK_FALSE_MESSAGE(parse_rfc3339(bad).has_value(), std::string(bad));
}

TEST_CASE("hostlist: ranges, padding, suffixes -> names in order; folded again") {
  CHECK(expanded("n[001-003,7],gpu3") == "n001 n002 n003 n7 gpu3");
  CHECK(expanded("r[1-2]n[08-10]") == "r1n08 r1n09 r1n10 r2n08 r2n09 r2n10");
  CHECK(expanded("n[1-2]-ib") == "n1-ib n2-ib");
  CHECK(compress_hostlist(*expand_hostlist("n003,n001,n002,n7,n001")) == "n7,n[001-003]");
}

TEST_CASE("hostlist: hostile lists -> one error, no memory") {
  for (const char* bad : {"n[1-", "n[5-2]", "n[]", "n[1-999999999]", "n[a-b]", "n]1["})
    CHECK_MESSAGE(expanded(bad).starts_with("error: "), std::string(bad));
}

TEST_CASE("json: a struct -> the same bytes for the same value; missing and unknown keys") {
  const Sample sample{3, "x", 2s};
  CHECK(to_json_text(sample) == R"({"duration":2000000000,"number":3,"text":"x"})");
  const auto read = from_json_text<Sample>(R"({"new key":[1,2],"duration":5})", "a file");
  REQUIRE(read);
  CHECK(read->number == 7);
  CHECK_FALSE(read->text.has_value());
  CHECK(read->duration == Duration(5));
}

TEST_CASE("json: hostile text -> an error that names its source") {
  const std::string deep(100000, '[');
  for (const std::string& bad :
       {deep, std::string("{"), std::string("\xff\xfe"), std::string("{\"number\": \"three\"}"),
        std::string("{\"duration\": 1e400}")}) {
    const auto read = from_json_text<Sample>(bad, "orders.json");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().message().starts_with("orders.json: "));
    CHECK(read.error().message().size() < 400);
  }
  CHECK_FALSE(parse_json("[1,2,3]", "a page", {4, 64}).has_value());
}

TEST_CASE("json: small text that would take gigabytes -> refused, with both numbers") {
  std::string many = "[{}";
  for (int i = 0; i < 5'000'000; ++i) many += ",{}";
  const auto read = parse_json(many + "]", "a dump", {64u << 20, 32});
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().message().starts_with("a dump: reading this JSON needs up to "));
  CHECK(read.error().message().ends_with(" MiB of memory; the limit is 384 MiB"));
  std::string text = "[\"";
  text.append(32u << 20, '[');  // in a string they are no lists
  CHECK(parse_json(text + "\"]", "a dump", {64u << 20, 32}).has_value());
}

TEST_CASE("json: a number that its integer cannot hold -> refused, as converting it is undefined") {
  const std::string digits(59, '1');
  for (const std::string& bad : {digits, "-" + digits, std::string("1e10"), std::string("-1e10")})
    CHECK_FALSE_MESSAGE(from_json_text<int>(bad, "test").has_value(), bad);
  CHECK_FALSE(from_json_text<std::uint64_t>("-1.0", "test").has_value());
  CHECK_FALSE(from_json_text<std::int64_t>("1e19", "test").has_value());
  CHECK(*from_json_text<int>("2147483647.0", "test") == 2147483647);
  CHECK(*from_json_text<std::uint64_t>("18446744073709551615", "test") == UINT64_MAX);
  CHECK(*from_json_text<bool>("true", "test"));
}

TEST_CASE("json: invalid numbers -> come back as they were; other text is refused") {
  const double values[] = {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.1};
  for (const double value : values) {
    const auto back = from_json_text<std::optional<double>>(to_json_text(value), "test");
    REQUIRE(back);
    REQUIRE(back->has_value());
    CHECK((std::isnan(value) ? std::isnan(**back) : **back == value));
  }
  CHECK_FALSE(from_json_text<double>("\"infinite\"", "test").has_value());
}

TEST_CASE("OptionalName: left out or of a later version -> none; known -> its value") {
  using Action = OptionalName<NodeAction>;
  CHECK(from_json<Action>(Json(""), "action")->get() == std::nullopt);
  CHECK(from_json<Action>(Json("melt"), "action")->get() == std::nullopt);
  CHECK(*from_json<Action>(Json("rma"), "action") == NodeAction::Rma);
  CHECK_FALSE(from_json<Action>(Json(3), "action"));
  CHECK(to_json_text(Action()) == "\"\"");
  CHECK(to_json_text(Action(NodeAction::ResetGpu)) == "\"reset_gpu\"");
}
