// RE2 is linear in the line, so no pattern is catastrophic; its program's size is what costs.
#include "diagnose/match/signature_lint.hpp"

#include <array>
#include <fmt/format.h>
#include <re2/re2.h>

#include "diagnose/input/line_origin.hpp"

namespace stoker::diagnose {

namespace {

constexpr int kLargestProgram = 20'000;  // instructions; the largest of ours has about 2,000

// Lines that trainings print all the time.
constexpr std::array<std::string_view, 7> kHealthyLines{
    " iteration     1200/  500000 | consumed samples:       614400 | elapsed time per iteration "
    "(ms): 5123.4 | learning rate: 3.000E-04 | lm loss: 2.104512E+00 | loss scale: 1.0 | grad "
    "norm: "
    "0.412 | number of skipped iterations:   0 | number of nan iterations:   0 |",
    "{'loss': 2.1045, 'grad_norm': 0.41, 'learning_rate': 0.0003, 'epoch': 0.12}",
    "[2026-03-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0",
    "step:  100  loss:  2.1045  memory: 60.12GiB(75.90%)  tps: 7,345  mfu: 43.21%",
    "Epoch 0:  12%|#2        | 120/1000 [10:00<73:20,  5.00s/it, v_num=0, loss=2.1]",
    "NCCL INFO Channel 00/08 :    0   1   2   3   4   5   6   7",
    "successfully saved checkpoint at iteration    1000 to /checkpoints"};

bool matches(const RE2& pattern, const std::string& expression, std::string_view line) {
  const bool anchored = expression.find('^') != std::string::npos;
  const std::string_view text = anchored ? read_origin(line).message : line;
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), pattern);
}

RE2::Options options() {
  RE2::Options o;
  o.set_log_errors(false);
  o.set_encoding(RE2::Options::EncodingLatin1);
  return o;
}

// A heavier signature that matches its example as well: then that one speaks.
std::string louder(const Signature& signature, const std::vector<Signature>& known) {
  for (const Signature& other : known) {
    if (other.weight <= signature.weight || other.kernel) continue;
    const RE2 pattern(other.pattern, options());
    if (pattern.ok() && matches(pattern, other.pattern, signature.example)) return other.name;
  }
  return "";
}

}  // namespace

std::vector<SignatureFault> lint_signature(const Signature& s,
                                           const std::vector<Signature>& known) {
  std::vector<SignatureFault> faults;
  const RE2 pattern(s.pattern, options());
  if (!pattern.ok()) return {{"pattern", pattern.error()}};
  if (pattern.ProgramSize() > kLargestProgram)
    faults.push_back({"pattern", "is too large to look for in every line (bounded repeats?)"});
  if (!matches(pattern, s.pattern, s.example))
    faults.push_back({"example", "is not found by the pattern"});
  if (matches(pattern, s.pattern, s.counter_example))
    faults.push_back({"counter_example", "is found by the pattern"});
  if (matches(pattern, s.pattern, ""))
    faults.push_back({"pattern", "matches every line"});
  else if (s.severity == Severity::Fatal || s.severity == Severity::Clue)
    for (const std::string_view line : kHealthyLines)
      if (matches(pattern, s.pattern, line)) {
        faults.push_back({"pattern", fmt::format("is hot: it matches lines of healthy trainings "
                                                 "(\"{}...\")",
                                                 line.substr(0, 40))});
        break;
      }
  if (const std::string other = louder(s, known); !other.empty())
    faults.push_back({"weight", fmt::format("it never speaks: {} is heavier and matches its "
                                            "example too",
                                            other)});
  return faults;
}

}  // namespace stoker::diagnose
