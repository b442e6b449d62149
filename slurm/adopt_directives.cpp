// The #SBATCH lines of a script.
#include <algorithm>
#include <set>

#include "slurm/adopt.hpp"
#include "slurm/script_options.hpp"
#include "slurm/script_words.hpp"

namespace stoker::slurm {
namespace {

// sbatch(1) of 22.05: options whose value may be left out or that have none.
const std::set<std::string, std::less<>> kFlags{
    "contiguous", "exclusive",     "get-user-env", "hold",          "ignore-pbs",
    "no-kill",    "no-requeue",    "overcommit",   "oversubscribe", "parsable",
    "propagate",  "quiet",         "reboot",       "requeue",       "spread-job",
    "test-only",  "use-min-nodes", "verbose",      "wait"};
// Its short options.
const std::map<char, const char*> kShort{
    {'A', "account"},       {'a', "array"},         {'b', "begin"},      {'C', "constraint"},
    {'c', "cpus-per-task"}, {'D', "chdir"},         {'d', "dependency"}, {'e', "error"},
    {'F', "nodefile"},      {'G', "gpus"},          {'H', "hold"},       {'i', "input"},
    {'J', "job-name"},      {'k', "no-kill"},       {'L', "licenses"},   {'M', "clusters"},
    {'m', "distribution"},  {'N', "nodes"},         {'n', "ntasks"},     {'O', "overcommit"},
    {'o', "output"},        {'p', "partition"},     {'Q', "quiet"},      {'q', "qos"},
    {'S', "core-spec"},     {'s', "oversubscribe"}, {'t', "time"},       {'v', "verbose"},
    {'W', "wait"},          {'w', "nodelist"},      {'x', "exclude"}};

// Of the options of sbatch: digits alone.
std::optional<std::uint64_t> number(std::string_view text) {
  return text.find('_') == std::string_view::npos ? whole_number(text) : std::nullopt;
}

template <class Take>
void each_option(const std::vector<std::string>& words, const Take& take) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    std::string name, value;
    bool has_value = false;
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
      has_value = equals != std::string::npos;
      if (has_value) value = word.substr(equals + 1);
    } else if (word.size() >= 2 && word[0] == '-' && kShort.contains(word[1])) {
      name = kShort.at(word[1]);
      has_value = word.size() > 2;
      value = word.substr(2);
    } else {
      continue;
    }
    if (!has_value && !kFlags.contains(name) && i + 1 < words.size()) value = words[++i];
    take(name, value);
  }
}

// `take` is given the name, the value and the number of the line.
template <class Take>
void each_directive(std::string_view text, const Take& take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("#SBATCH"))
      each_option(
          split_words(line.substr(7)),
          [&](const std::string& name, const std::string& value) { take(name, value, number); });
    else if (line.find_first_not_of(" \t\r") != std::string_view::npos && line[0] != '#')
      break;  // sbatch reads none behind the first command
  }
}

}  // namespace

Directives read_directives(std::string_view text) {
  Directives out;
  each_directive(text, [&](const std::string& name, const std::string& value, std::size_t) {
    out[name] = value;
  });
  return out;
}

void read_options(const std::vector<std::string>& words, Directives& out) {
  each_option(words, [&](const std::string& name, const std::string& value) { out[name] = value; });
}

std::map<std::string, std::size_t> directive_lines(std::string_view text) {
  std::map<std::string, std::size_t> out;
  each_directive(text, [&](const std::string& name, const std::string&, std::size_t line) {
    out[name] = line;
  });
  return out;
}

std::optional<Duration> parse_time_limit(std::string_view text) {
  std::uint64_t days = 0;
  const auto dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto n = number(text.substr(0, dash));
    if (!n || *n > 10000) return std::nullopt;
    days = *n;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::uint64_t> parts;
  for (;;) {
    const auto colon = text.find(':');
    const auto n = number(text.substr(0, colon));
    if (!n || *n > 1'000'000 || parts.size() == 3) return std::nullopt;
    parts.push_back(*n);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  const auto at = [&](std::size_t i) { return i < parts.size() ? parts[i] : 0; };
  std::uint64_t seconds = days * 86400;
  if (dash != std::string_view::npos)  // d-h, d-h:m, d-h:m:s
    seconds += at(0) * 3600 + at(1) * 60 + at(2);
  else if (parts.size() == 3)  // h:m:s
    seconds += at(0) * 3600 + at(1) * 60 + at(2);
  else  // m, m:s
    seconds += at(0) * 60 + at(1);
  if (seconds == 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

}  // namespace stoker::slurm
