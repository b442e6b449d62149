// The pickle reader: data without calls, and the memory that a hostile file can make it take.
#include "diagnose/parse/pickle.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diagnose/parse/flight_recorder.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

std::string number(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}
std::string text(std::size_t size) {
  return "X" + number(static_cast<std::uint32_t>(size)) + std::string(size, 'x');
}
std::string repeated(std::string_view piece, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += piece;
  return all;
}

struct Outcome {
  std::string error;  // empty: it was read
  long most_mib = 0;  // resident, of a process that does nothing else
};

Outcome read_apart(const std::string& file) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto read = read_flight_dump(file, 0, "dump");
    const std::string said = read ? "" : read.error().what;
    const auto written = ::write(ends[1], said.data(), said.size());
    ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    outcome.error.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  rusage used{};
  int status = 0;
  REQUIRE(::wait4(child, &status, 0, &used) == child);
  REQUIRE(status == 0);
  outcome.most_mib = used.ru_maxrss >> 10;
  return outcome;
}

// Under a sanitizer each block costs more, and blocks that were given back are kept.
#ifdef __SANITIZE_ADDRESS__
constexpr long kMostMib = 2048;
#else
constexpr long kMostMib = 512;
#endif

}  // namespace

TEST_CASE("pickle: 1.8 MB that take gigabytes when they are written out -> refused below 512 MiB") {
  using namespace std::string_literals;
  constexpr std::size_t kSize = 1'800'000;
  const std::string begin = "\x80\x02}X\x07\x00\x00\x00"s + "entries";
  const std::string shared_text = text(64u << 10) + "q\x00"s + "0";
  const std::string shared_list = "(" + repeated("N", 1000) + "lq\x00"s + "0";
  const std::string shared_map = "}q\x00("s + [] {
    std::string entries;
    for (int i = 0; i < 1000; ++i) entries += text(9).replace(5, 4, fmt::format("{:04}", i)) + "N";
    return entries;
  }() + "u0";
  const struct {
    std::string what, bytes;
  } files[] = {{"one text, named often", shared_text + "(" + repeated("h\x00"s, kSize) + "l"},
               {"one text, duplicated", shared_text + "(h\x00"s + repeated("2", kSize) + "l"},
               {"one list, named often", shared_list + "(" + repeated("h\x00"s, kSize) + "l"},
               {"one map, named often", shared_map + "(" + repeated("h\x00"s, kSize) + "l"},
               {"long keys", shared_text + "}(" + repeated("h\x00N"s, kSize) + "u"},
               {"tuples of tuples", "N" + repeated("\x85", kSize)},
               {"empty maps", "(" + repeated("}", kSize) + "l"},
               {"everything remembered", "(" + repeated("N\x94", kSize) + "l"},
               {"a list that grows by one", "]N" + repeated("q\x01h\x01"s + "a", kSize)}};
  for (const auto& file : files) {
    CAPTURE(file.what);
    const Outcome outcome = read_apart(begin + file.bytes + "s.");
    CAPTURE(outcome.error);
    CHECK(outcome.most_mib < kMostMib);
  }
  for (const auto& file : {files[0], files[1], files[2], files[3], files[4]}) {
    CAPTURE(file.what);
    const auto read = read_flight_dump(begin + file.bytes + "s.", 0, "dump");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().what.starts_with("refused: "));
    CHECK(read.error().object == "dump");
  }
}

TEST_CASE("pickle: the stacks of a large dump, shared by its entries -> read all the same") {
  using namespace std::string_literals;
  // 20000 entries with 64 frames each: 5 million values when written out, needed by no reader.
  std::string frames =
      "(" + repeated("}X\x04\x00\x00\x00name"s + text(200) + "s", 64 * 217) + "lq\x01"s + "0";
  const std::string entry = "}(X\x06\x00\x00\x00"s + "framesh\x01"s + "X\x05\x00\x00\x00"s +
                            "pg_id" + "K\x00"s + "X\x11\x00\x00\x00"s + "collective_seq_id" +
                            "K\x07"s + "X\x05\x00\x00\x00"s + "state" + "X\x07\x00\x00\x00"s +
                            "started" + "u";
  std::string dump = "\x80\x02"s + frames + "}X\x07\x00\x00\x00"s + "entries(";
  for (int i = 0; i < 20'000; ++i) dump += entry;
  std::string last = entry;
  last.replace(last.find("K\x00"s), 2, "K\x01");  // another group
  dump += last;
  const auto reports = read_flight_dump(dump + "ls.", 3, "dump");
  REQUIRE_MESSAGE(reports.has_value(), (reports ? "" : reports.error().message()));
  REQUIRE(reports->size() == 2);
  CHECK(reports->back().stuck_in == 7);
}

TEST_CASE("pickle: maps, lists, numbers, shared values -> JSON; calls are not made") {
  using namespace std::string_literals;
  // pickle.dumps({'a': [1, 2.5, None, True], 'b': (70000, -1)}, 2)
  const std::string plain =
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01G@\x04\x00\x00\x00\x00\x00\x00N\x88"
      "eX\x01\x00\x00\x00"
      "bq\x03J\x70\x11\x01\x00J\xff\xff\xff\xff\x86q\x04u."s;
  const auto read = read_pickle(plain, "x");
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message()));
  CHECK(dump_json(*read) == R"({"a":[1,2.5,null,true],"b":[70000,-1]})");
  // A list that is put aside after it was filled, and named twice.
  CHECK(dump_json(*read_pickle("\x80\x02(](K\x01K\x02"
                               "eq\x00h\x00h\x00t."s,
                               "x")) == "[[1,2],[1,2],[1,2]]");
  // A name that is a function, and its call: nothing happens.
  const auto call = read_pickle("cos\nsystem\n(S'touch x'\ntR."s, "x");
  REQUIRE(call.has_value());
  CHECK(call->is_null());
}

TEST_CASE("pickle: torn, misplaced, self-containing, exploding -> an error, or what is there") {
  using namespace std::string_literals;
  for (const std::string& bytes :
       {""s, "."s, "\x80\x02"s, "\x80\x02}q"s, "\x80\x02X\xff\xff\xff\xff"s, "\x80\x02h\x07."s,
        "\x80\x02u."s, "\x80\x02K\x01s."s, "\x80\x02\xfe."s})
    CHECK_FALSE(read_pickle(bytes, "x").has_value());
  CHECK(read_pickle("\x80\x02]q\x00h\x00"
                    "a."s,
                    "x")
            .has_value());  // a list in itself
  // Each level names the one before ten times: 10^30 values if it were written out.
  std::string bomb = "\x80\x02]q\x00"s;
  for (char level = 1; level < 30; ++level) {
    bomb += "("s;
    for (int i = 0; i < 10; ++i) bomb += "h"s + static_cast<char>(level - 1);
    bomb += "tq"s + level;
  }
  bomb += "."s;
  const auto refused = read_pickle(bomb, "x", {10'000, 64, 100});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().what == "refused: it holds more than 10000 values");
  CHECK_FALSE(
      read_pickle("\x80\x02" + std::string(20'000, 'N') + ".", "x", {10'000, 16, 100}).has_value());
}
