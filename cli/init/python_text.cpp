#include "cli/init/python_text.hpp"

#include <re2/re2.h>

namespace stoker::cli::init {
namespace {

constexpr std::size_t kLongestLine = 4096;

struct Pattern {
  const char* text;
  SaidByText PythonText::*into;
};

// The first line that matches a pattern says it; patterns of one member in the order of their rank.
constexpr Pattern kPatterns[] = {
    {R"re(add_argument\(\s*["']--(?:save|(?:save|output|checkpoint|ckpt)[-_](?:dir|path))["'].*\bdefault\s*=\s*["']([^"'{}]+)["'])re",
     &PythonText::checkpoints},
    {R"re(\b(?:output_dir|dirpath|checkpoint_dir|ckpt_dir|save_dir|checkpoint_path)\s*=\s*["']([^"'{}]+)["'])re",
     &PythonText::checkpoints},
    {R"re(\btorch\.save\(.*["']([^"'{}]+)/[^"'/]*["'])re", &PythonText::checkpoints},
    {R"re(["']([^"'{} ]*(?:checkpoint|ckpt)[^"'{}/ ]*)/[^"'/]*["'])re", &PythonText::checkpoints},
    {R"re(signal\.signal\(\s*signal\.SIG(USR1|USR2)\s*,\s*\w*(?:save|checkpoint|ckpt))re",
     &PythonText::save_signal},
    {R"re(\b(init_process_group|DistributedDataParallel|fully_shard|LOCAL_RANK|WORLD_SIZE|deepspeed\.initialize|jax\.distributed\.initialize)\b)re",
     &PythonText::spreads},
};

}  // namespace

PythonText read_python(std::string_view text) {
  PythonText out;
  for (const Pattern& pattern : kPatterns) {
    SaidByText& said = out.*pattern.into;
    if (!said.value.empty()) continue;
    const RE2 expression(pattern.text);
    std::size_t number = 0;
    for (std::string_view rest = text; !rest.empty() && said.value.empty();) {
      const auto end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, std::min(end, kLongestLine));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++number;
      const auto first = line.find_first_not_of(" \t");
      if (first == std::string_view::npos || line[first] == '#') continue;
      if (RE2::PartialMatch({line.data(), line.size()}, expression, &said.value))
        said.line = number;
    }
  }
  return out;
}

}  // namespace stoker::cli::init
