// What is skipped because its shape is known must be what a full search would have skipped: error
// fragments anywhere in healthy lines, numbers of any width.
#include "diagnose/match/line_sieve.hpp"

#include <doctest/doctest.h>
#include <map>
#include <random>

#include "detector.hpp"
#include "diagnose/input/line_scan.hpp"
#include "diagnose/input/log_file.hpp"
#include "diagnose/match/block_expression.hpp"
#include "diagnose/parse/iteration_line.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

constexpr std::array kHealthy{
    " iteration    12695/  115311 | consumed samples:      9841584 | elapsed time per iteration "
    "(s): "
    "105.22 | learning rate: 5.969E-05 | global batch size:  2048 | lm loss: 2.463556E+00 | loss "
    "scale: 131072.0 | grad norm: 0.174 | number of skipped iterations:   0 | number of nan "
    "iterations:   0 |",
    "[2023-04-18 01:46:59,142] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=6, "
    "lr=[9.649992967150629e-06, 9.64e-06], mom=[(0.9, 0.95), (0.9, 0.95)]",
    "{'loss': 1.7166, 'grad_norm': 0.41, 'learning_rate': 1e-05, 'epoch': 0.02}",
    "3: 2025-03-04 00:44:44,441 - root - INFO - \x1b[36mstep: 1990  \x1b[32mloss:  3.4370  "
    "\x1b[33mmemory: 68.57GiB(86.69%)  \x1b[34mtps: 6,785  \x1b[35mmfu: 39.73%\x1b[39m",
    "step:12/6200 train_loss:7.4058 train_time:76822ms step_avg:38.41ms",
    "step 39: train loss 3.970751 (took 1323.779000 ms)",
    ":::MLLOG {\"namespace\": \"\", \"time_ms\": 1696564728691, \"key\": \"train_loss\", "
    "\"value\": "
    "2.19, \"metadata\": {\"samples_count\": 640, \"lr\": 1e-4}}",
    "Epoch 0:  12%|#2        | 120/1000 [10:00<73:20,  5.00s/it, v_num=0, loss=2.1]",
    "2023-11-10T15:06:02.978+08:00 INFO [training_internlm.py, line 601] - pid=78690 : "
    "tflops=115.41412094522278 step=1 loss=11.33798599243164 lr=6.000000000000001e-07 "
    "loss_scale=65536.0 grad_norm={'0_default': 90.85008685328815} acc=0.0",
    "(pretraining, pid=4112) Training epoch 2, iteration 7/999 | lr: 6.897e-06 | global_step: 45 | "
    "reduced_train_loss: 11.02 | train_step_timing in s: 47.12 | consumed_samples: 23552",
    "n003:2005:3005 [5] NCCL INFO Channel 12/16 : 0 1 2 3 4 5 6 7",
    "saving checkpoint at iteration     200 to checkpoints/stage2_nl32",
};

std::string other_digits(std::string text, std::mt19937& random, bool widths) {
  std::string other;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') {
      other += text[i];
      continue;
    }
    const bool first = i == 0 || text[i - 1] < '0' || text[i - 1] > '9';
    for (auto more = widths && first ? random() % 3 : 0ul; more > 0; --more)
      other += static_cast<char>('1' + random() % 9);
    if (!widths || random() % 4 != 0 || first) other += static_cast<char>('0' + random() % 10);
  }
  return other;
}

// Each line through a sieve that has learnt from those before: what it says of the line.
struct Said {
  std::vector<unsigned> ids;
  std::optional<StepNumbers> numbers;
};
std::vector<Said> sieved(const std::vector<std::string>& lines) {
  LineSieve sieve = detector().sieve();
  std::vector<Said> all(lines.size());
  std::string block;
  for (const auto& line : lines) block += line + '\n';
  const auto count = sieve.block(block, [&](const LineSieve::Line& line) {
    Said& said = all.at(line.number);
    CHECK(line.text == lines[line.number]);
    said.ids.assign(line.ids.begin(), line.ids.end());
    if (line.step != nullptr) said.numbers = read_step(*line.step, line.text);
  });
  CHECK(count == lines.size());
  return all;
}

bool matches(unsigned id, const std::string& line) {
  static std::vector<PatternSet::Group> groups;
  return detector().patterns().match(id, line, groups) ||
         detector().patterns().match(id, read_origin(line).message, groups);
}

}  // namespace

TEST_CASE("line sieve: fragments of errors anywhere in healthy lines -> no hit is lost") {
  std::mt19937 random(7);
  std::vector<std::string> lines;
  for (const Signature& signature : detector().knowledge().signatures) {
    const std::string& example = signature.example;
    for (int round = 0; round < 6; ++round) {
      const std::size_t from = round < 3 ? 0 : random() % (example.size() / 2 + 1);
      const std::size_t length =
          round < 3 ? example.size() : random() % (example.size() - from) + 1;
      std::string line = kHealthy.at(random() % kHealthy.size());
      line.insert(round == 0 ? line.size() : random() % (line.size() + 1),
                  example.substr(from, length));
      // Its likes are known when it comes: with other digits, of other widths.
      for (int before = 0; before < 3; ++before) lines.push_back(other_digits(line, random, false));
      for (int before = 0; before < 3; ++before) lines.push_back(other_digits(line, random, true));
      lines.push_back(line);
    }
    for (int before = 0; before < 3; ++before)
      lines.push_back(other_digits(example, random, false));
    lines.push_back(example);
  }
  const auto said = sieved(lines);
  const auto signatures = static_cast<unsigned>(detector().knowledge().signatures.size());
  std::map<unsigned, int> found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& ids = said[i].ids;
    for (unsigned id = 0; id < signatures; ++id) {
      if (!matches(id, lines[i])) continue;
      ++found[id];
      CAPTURE(lines[i]);
      CAPTURE(detector().knowledge().signatures[id].name);
      CHECK(std::find(ids.begin(), ids.end(), id) != ids.end());
    }
  }
  CHECK(found.size() == signatures);
}

TEST_CASE(
    "line sieve: healthy lines whose numbers move -> known, and read as the parser reads them") {
  std::mt19937 random(11);
  std::vector<std::string> lines;
  for (int round = 0; round < 1500; ++round)
    for (const char* const line : kHealthy)
      lines.push_back(other_digits(line, random, round % 2 == 0));
  const auto said = sieved(lines);
  std::size_t known = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string storage;
    const auto metrics = parse_iteration_line(without_colours(lines[i], storage));
    const bool parsed_later =
        std::count(said[i].ids.begin(), said[i].ids.end(), detector().iteration_pattern()) > 0;
    if (parsed_later) continue;
    ++known;
    CAPTURE(lines[i]);
    CHECK(said[i].numbers.has_value() == metrics.has_value());
    if (metrics && said[i].numbers) CHECK(*said[i].numbers == step_numbers(*metrics));
  }
  // A bar within an epoch counts on top of the epochs before: its lines are parsed one by one.
  CHECK(known * 10 > lines.size() * 8);
}

TEST_CASE(
    "line sieve: shapes that never come again, and lines of one shape by the thousand -> same "
    "findings") {
  std::mt19937 random(3);
  std::string log;
  for (int i = 0; i < 20'000; ++i) {
    std::string line = kHealthy.at(random() % kHealthy.size());
    if (i % 3 == 0) line.insert(random() % line.size(), std::string(random() % 9, 'x'));
    if (i % 997 == 0) line = detector().knowledge().signatures[random() % 100].example;
    log += other_digits(line, random, i % 2 == 0) + "\n";
  }
  const auto scanned = [&](bool all) {
    LineSieve sieve = detector().sieve();
    if (all) sieve.search_all();
    LogScanner scanner(detector(), sieve, "main.log", 0, false);
    for (std::string_view rest = log; !rest.empty();) {
      const auto end = rest.find('\n', std::min<std::size_t>(5000, rest.size() - 1)) + 1;
      scanner.block(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    return scanner.finish();
  };
  const ScannedLog quick = scanned(false), full = scanned(true);
  CHECK(quick.lines == full.lines);
  CHECK(quick.iteration_lines == full.iteration_lines);
  CHECK(quick.last_iteration == full.last_iteration);
  CHECK(quick.progressed_line == full.progressed_line);
  CHECK(full.findings.size() > 5);
  REQUIRE(quick.findings.size() == full.findings.size());
  for (std::size_t i = 0; i < full.findings.size(); ++i) {
    CHECK(quick.findings[i].line == full.findings[i].line);
    CHECK(quick.findings[i].last_line == full.findings[i].last_line);
    CHECK(quick.findings[i].count == full.findings[i].count);
    CHECK(quick.findings[i].text == full.findings[i].text);
  }
}

TEST_CASE("block expressions: no anchor, no digit told from another, a digit may be left out") {
  const std::pair<const char*, const char*> forms[] = {
      {R"(^exit code [1-9]\d*$)", R"(exit code [1-90-9]?\d*)"},
      {R"(ip\d{2,4}:[0-9a-f]{4}x+)", R"(ip\d{0,4}:[0-9a-f]{0,4}x+)"},
      {R"((?P<n1>\w+)a.b\S?)", R"((?P<n1>\w*)a.?b\S?)"},
      {R"(signal (?:4|11)\b[^\d]x{2})", R"(signal (?:[0-9]?|[0-9]?[0-9]?)[^\d\n]x{2})"},
      {R"([]x^]\[3\$)", R"([]x^]\[[0-9]?\$)"},
      {R"(a{b\d{3,}c\d+?)", R"(a{b\d*c\d*?)"},
  };
  for (const auto& [expression, wanted] : forms) {
    const auto got = block_expression(expression);
    CHECK(got.text == wanted);
    CHECK(got.digits_alike);
  }
  CHECK_FALSE(block_expression(R"([^3]x)").digits_alike);
  CHECK_FALSE(block_expression(R"(\x31)").digits_alike);
  CHECK_FALSE(block_expression(R"([[:alnum:]]x)").digits_alike);
  CHECK(detector().patterns().digits_alike());
}

TEST_CASE("line sieve: examples with long runs anywhere -> what RE2 finds is found in the block") {
  PatternSet::Scratch scratch(detector().patterns());
  const auto& signatures = detector().knowledge().signatures;
  std::size_t stretched = 0;
  for (unsigned id = 0; id < signatures.size(); ++id) {
    const std::string& example = signatures[id].example;
    for (std::size_t at = 1; at + 1 < example.size(); at += 2)
      for (const std::size_t length : {40, 64, 131}) {
        std::string line = example;
        line.insert(at, length, example[at]);
        if (!matches(id, line)) continue;
        ++stretched;
        bool found = false;
        detector().patterns().scan(line, scratch, [&](std::uint64_t, std::string_view, auto ids) {
          found = std::find(ids.begin(), ids.end(), id) != ids.end();
        });
        if (found) continue;
        CAPTURE(line);
        CAPTURE(signatures[id].name);
        CHECK(found);
      }
  }
  CHECK(stretched > 1000);
}

TEST_CASE("line sieve: a line of many MiB -> cut, the lines behind it counted and read") {
  std::string log(5u << 20, 'x');
  log += "\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n" +
         std::string(1u << 20, 'y') + "\nlast\n";
  const auto scanned = scan_text(detector(), log, "main.log");
  CHECK(scanned.lines == 4);
  REQUIRE(scanned.findings.size() == 1);
  CHECK(scanned.findings[0].line == 2);
  CHECK(scanned.notes.size() == 1);
  CHECK(scanned.last_lines.back() == "last");
}
