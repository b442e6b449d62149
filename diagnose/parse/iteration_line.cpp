// One function a family of printers, tried in the order of the table at the end.
#include "diagnose/parse/iteration_line.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "diagnose/input/line_scan.hpp"
#include "diagnose/parse/progress_forms.hpp"

namespace stoker::diagnose {

namespace {

constexpr auto npos = std::string_view::npos;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

struct Marker {
  std::uint64_t iteration = 0;
  std::optional<std::uint64_t> total;
  std::string_view before, after;
};

// "iteration  12695/ 115311", "iteration:  2500/500000", "step: 1990", "iter 10:": the word alone,
// blanks and at most one colon, digits. Not "at iteration 200" (a sentence).
std::optional<Marker> find_marker(std::string_view line, std::string_view word) {
  for (auto at = find_word(line, word); at != npos; at = find_word(line, word, at + 1)) {
    std::string_view rest = line.substr(at + word.size());
    rest = trim_left(rest);
    if (!rest.empty() && rest.front() == ':') rest = trim_left(rest.substr(1));
    if (rest.empty() || !is_digit(rest.front())) continue;
    const std::string_view before = line.substr(0, at);
    if (trim(before).ends_with("at")) continue;
    Marker marker;
    std::size_t length = 0;
    const auto number = scan_count(rest, length);
    if (!number) continue;
    marker.iteration = *number;
    marker.before = before;
    marker.after = rest.substr(length);
    std::string_view total = trim_left(marker.after);
    if (!total.empty() && total.front() == '/') {
      total = trim_left(total.substr(1));
      marker.total = scan_count(total, length);
      if (marker.total) marker.after = total.substr(length);
    }
    return marker;
  }
  return std::nullopt;
}

bool ends_with_loss(std::string_view name) {
  return name.ends_with("loss") || name.ends_with("Loss");
}

// A loss under a name of its own ("mlm loss") stands in for the loss when there is no better one.
void adopt_named_loss(IterationMetrics& metrics, std::string_view name, double value) {
  if (!metrics.loss && ends_with_loss(name) && !name.starts_with("val")) metrics.loss = value;
}

// nanotron shortens: "4.1K", "2.83M".
double thousands(std::string_view unit) {
  if (unit == "K") return 1e3;
  if (unit == "M") return 1e6;
  if (unit == "B" || unit == "G") return 1e9;
  return unit == "T" ? 1e12 : 1;
}

// key: value fields between bars, as Megatron and nanotron print them.
std::optional<IterationMetrics> parse_bars(std::string_view line) {
  auto marker = find_marker(line, "iteration");
  if (!marker) marker = find_marker(line, "step");
  if (!marker) return std::nullopt;
  const auto first_bar = marker->after.find('|');
  if (first_bar == npos) return std::nullopt;
  IterationMetrics metrics;
  metrics.iteration = marker->iteration;
  metrics.total = marker->total;
  int known = 0;
  std::string_view first_loss;
  double first_loss_value = 0;
  for (std::string_view rest = marker->after.substr(first_bar + 1); !rest.empty();) {
    const auto bar = rest.find('|');
    const std::string_view field = rest.substr(0, bar);
    rest = bar == npos ? std::string_view{} : rest.substr(bar + 1);
    if (find_marker(field, "iteration")) break;  // another record that tore into this line
    const auto colon = field.find(':');
    if (colon == npos) continue;
    const std::string_view name = trim(field.substr(0, colon));
    const std::string_view text = trim(field.substr(colon + 1));
    const auto number = scan_number(text);
    if (!number) continue;
    const std::string_view unit = trim(text.substr(number->length));
    if (unit.size() > 12) continue;  // torn
    if (assign_metric(metrics, name, number->value * thousands(unit), unit)) {
      ++known;
    } else if (first_loss.empty() && ends_with_loss(name)) {
      first_loss = name;
      first_loss_value = number->value;
    }
  }
  if (!first_loss.empty()) {
    ++known;
    adopt_named_loss(metrics, first_loss, first_loss_value);
  }
  if (known == 0) return std::nullopt;
  return metrics;
}

struct Words {  // "name number unit" in free order: nanoGPT, llm.c, torchtitan
  IterationMetrics metrics;
  bool validation = false;
  std::optional<double> validation_loss;
};

void take_word_value(Words& out, std::string_view name, double value, std::string_view unit) {
  if (name.starts_with("val") && ends_with_loss(name)) {
    out.validation = true;
    out.validation_loss = value;
    return;
  }
  if (name.empty()) {  // llm.c: "| 200.40 ms | 45.2% bf16 MFU | 261632 tok/s"
    if (unit == "ms") out.metrics.elapsed_ms = value;
    if (unit == "tok/s") assign_metric(out.metrics, "tokens_per_s", value);
    return;
  }
  if (name == "tps") name = "tokens_per_s_per_gpu";
  if (name == "memory" && unit.starts_with("GiB")) name = "memory_gib";
  if (name == "step_avg") name = "step_avg_ms";
  if (name == "train_time") name = "train_time_ms";
  assign_metric(out.metrics, name, value, unit);
}

bool is_separator(char c) {
  return c == ' ' || c == ',' || c == ';' || c == '(' || c == ')' || c == '\t' || c == ':';
}

std::string_view take_token(std::string_view& rest) {
  std::size_t end = 0;
  while (end < rest.size() && !is_separator(rest[end]) && rest[end] != '|') ++end;
  const auto token = rest.substr(0, end);
  rest.remove_prefix(end);
  return token;
}

Words scan_words(std::string_view rest) {
  Words out;
  std::string name;
  while (!rest.empty()) {
    if (is_separator(rest.front()) || rest.front() == '|') {
      if (rest.front() == '|') name.clear();
      rest.remove_prefix(1);
      continue;
    }
    if (const auto number = scan_number(rest)) {
      std::string_view behind = rest.substr(number->length);
      std::string_view unit = take_token(behind);
      if (unit.empty()) {
        std::string_view next = trim_left(behind);
        const std::string_view word = take_token(next);
        if (word == "ms" || word == "s" || word == "tok/s") {
          unit = word;
          behind = next;
        }
      }
      take_word_value(out, name, number->value, unit);
      name.clear();
      rest = behind;
      continue;
    }
    const auto token = take_token(rest);
    if (name.size() + token.size() < 64) {
      if (!name.empty()) name += ' ';
      name += token;
    }
  }
  return out;
}

std::optional<Marker> find_word_marker(std::string_view line) {
  for (const std::string_view word : {"step", "steps", "iter", "iteration"})
    if (auto marker = find_marker(line, word)) return marker;
  return std::nullopt;
}

std::optional<IterationMetrics> parse_words(std::string_view line) {
  const auto marker = find_word_marker(line);
  if (!marker || trim(marker->before).ends_with("validate")) return std::nullopt;
  Words words = scan_words(marker->after);
  if (words.validation || !words.metrics.loss) return std::nullopt;
  words.metrics.iteration = marker->iteration;
  words.metrics.total = marker->total;
  return words.metrics;
}

// The first number of "5", "[5, 6]", "{'0_default': 5}".
std::optional<double> first_number(std::string_view text) {
  text = trim_left(text);
  if (text.empty()) return std::nullopt;
  if (text.front() == '[') text.remove_prefix(1);
  if (!text.empty() && text.front() == '{') {
    const auto colon = text.find(':');
    if (colon == npos) return std::nullopt;
    text = trim_left(text.substr(colon + 1));
  }
  const auto number = scan_number(text);
  if (!number) return std::nullopt;
  return number->value;
}

// name=value pairs: DeepSpeed's "step=20, skipped=6, lr=[…]", InternEvo, fairseq.
std::optional<IterationMetrics> parse_pairs(std::string_view line) {
  if (find_word(line, "step=") == npos && find_word(line, "num_updates=") == npos)
    return std::nullopt;
  IterationMetrics metrics;
  for (auto equals = line.find('='); equals != npos; equals = line.find('=', equals + 1)) {
    std::size_t begin = equals;
    while (begin > 0 && !is_separator(line[begin - 1])) --begin;
    const std::string_view name = line.substr(begin, equals - begin);
    const auto value = first_number(line.substr(equals + 1));
    if (!value || name.empty()) continue;
    const bool counts = name == "step" || name == "num_updates";
    if (counts && *value >= 0 && *value < 1e15)
      metrics.iteration = static_cast<std::uint64_t>(*value);
    else
      assign_metric(metrics, name, *value);
  }
  if (!metrics.iteration || (!metrics.loss && !metrics.lr)) return std::nullopt;
  return metrics;
}

// 'key': number pairs of the last {…} of the line; calls take(key, value).
template <class Take>
void for_each_dict_number(std::string_view line, Take take) {
  const auto open = line.find('{');
  if (open == npos) return;
  std::string_view rest = line.substr(open + 1);
  while (true) {
    const auto quote = rest.find_first_of("'\"");
    if (quote == npos) return;
    const auto end = rest.find(rest[quote], quote + 1);
    if (end == npos) return;
    const std::string_view key = rest.substr(quote + 1, end - quote - 1);
    std::string_view value = trim_left(rest.substr(end + 1));
    if (value.empty() || value.front() != ':') {
      rest.remove_prefix(end + 1);
      continue;
    }
    value = trim_left(value.substr(1));
    const bool quoted = !value.empty() && (value.front() == '\'' || value.front() == '"');
    if (quoted) value.remove_prefix(1);
    if (const auto number = scan_number(value)) {
      take(key, number->value);
      value.remove_prefix(number->length);
    }
    if (quoted) value = value.substr(std::min(value.size(), value.find_first_of("'\"") + 1));
    rest = value;
  }
}

std::optional<IterationMetrics> parse_dict(std::string_view line) {
  if (line.find("loss'") == npos && line.find("loss\"") == npos) return std::nullopt;
  IterationMetrics metrics;
  bool summary = false;
  for_each_dict_number(line, [&](std::string_view key, double value) {
    summary |= key == "train_runtime" || key.starts_with("eval_") || key.starts_with("val_");
    constexpr std::array kSteps{"step", "global_step",   "iteration",
                                "iter", "current_steps", "num_updates"};
    const bool counts = value >= 0 && value < 1e15;
    if (counts && std::find(kSteps.begin(), kSteps.end(), key) != kSteps.end())
      metrics.iteration = static_cast<std::uint64_t>(value);
    else if (counts && key == "total_steps")
      metrics.total = static_cast<std::uint64_t>(value);
    else
      assign_metric(metrics, key, value);
  });
  if (summary || !metrics.loss) return std::nullopt;
  return metrics;
}

std::optional<ValidationMetrics> validation_of_bars(std::string_view line) {
  constexpr std::string_view kMark = " loss at iteration ";
  const auto at = line.find(kMark);
  if (at == npos) return std::nullopt;
  ValidationMetrics out;
  std::size_t length = 0;
  const std::string_view rest = trim_left(line.substr(at + kMark.size()));
  out.iteration = scan_count(rest, length);
  if (!out.iteration) return std::nullopt;
  out.dataset = std::string(trim(without_rank_prefix(line.substr(0, at))).substr(0, 256));
  for (auto bar = rest.find('|'); bar != npos; bar = rest.find('|', bar + 1)) {
    const std::string_view field = rest.substr(bar + 1);
    const auto colon = field.find(':');
    if (colon == npos) break;
    const std::string_view name = trim(field.substr(0, colon));
    const auto number = scan_number(trim_left(field.substr(colon + 1)));
    if (!number || name.find('|') != npos) continue;
    if (!out.loss && name.ends_with("value")) out.loss = number->value;
    if (!out.ppl && name.ends_with("PPL")) out.ppl = number->value;
  }
  if (!out.loss) return std::nullopt;
  return out;
}

std::optional<ValidationMetrics> validation_of_words(std::string_view line) {
  const auto marker = find_word_marker(line);
  if (!marker) {  // llm.c: "val loss 5.252026" alone
    const Words words = scan_words(without_rank_prefix(line));
    if (!words.validation || !trim_left(without_rank_prefix(line)).starts_with("val"))
      return std::nullopt;
    return ValidationMetrics{std::nullopt, "val", words.validation_loss, std::nullopt};
  }
  const Words words = scan_words(marker->after);
  if (words.validation)
    return ValidationMetrics{marker->iteration, "val", words.validation_loss, std::nullopt};
  if (trim(marker->before).ends_with("validate") && words.metrics.loss)
    return ValidationMetrics{marker->iteration, "validate", words.metrics.loss, std::nullopt};
  return std::nullopt;
}

std::optional<ValidationMetrics> validation_of_dict(std::string_view line) {
  if (line.find("eval_loss") == npos) return std::nullopt;
  ValidationMetrics out{std::nullopt, "eval", std::nullopt, std::nullopt};
  for_each_dict_number(line, [&](std::string_view key, double value) {
    if (key == "eval_loss") out.loss = value;
    if (key == "step" && value >= 0 && value < 1e15)
      out.iteration = static_cast<std::uint64_t>(value);
  });
  if (!out.loss) return std::nullopt;
  return out;
}

struct Family {
  std::string_view form;    // what it is called
  std::string_view needle;  // no such text in the line: not tried
  std::optional<IterationMetrics> (*parse)(std::string_view line);
};
constexpr std::array kFamilies{
    Family{"events of MLPerf", ":::MLLOG", parse_mllog},
    Family{"a progress bar", "%|", parse_progress_bar},
    Family{"fields between bars", "|", parse_bars},
    Family{"pairs with =", "step=", parse_pairs},
    Family{"pairs with =", "num_updates=", parse_pairs},
    Family{"a dictionary", "loss", parse_dict},
    Family{"words and numbers", "loss", parse_words},
};

// `form`: the family that knew it.
std::optional<IterationMetrics> parse_with(std::string_view line, std::string_view& form) {
  std::string storage;
  line = without_colours(line.substr(0, kLongestLine), storage);
  for (const Family& family : kFamilies) {
    if (line.find(family.needle) == npos) continue;
    form = family.form;
    if (auto metrics = family.parse(line)) return metrics;
  }
  form = {};
  return std::nullopt;
}

}  // namespace

std::optional<IterationMetrics> parse_iteration_line(std::string_view line) {
  std::string_view form;
  return parse_with(line, form);
}

std::string_view iteration_form(std::string_view line) {
  std::string_view form;
  static_cast<void>(parse_with(line, form));
  return form;
}

std::optional<ValidationMetrics> parse_validation_line(std::string_view line) {
  std::string storage;
  line = without_colours(line.substr(0, kLongestLine), storage);
  if (auto found = parse_mllog_validation(line)) return found;
  if (line.find("loss") == npos) return std::nullopt;
  if (auto found = validation_of_bars(line)) return found;
  if (auto found = validation_of_dict(line)) return found;
  if (line.find("val") == npos) return std::nullopt;
  return validation_of_words(line);
}

bool is_unfinished_record(std::string_view line) {
  const auto marker = find_marker(line, "iteration");
  return marker && marker->total && marker->after.find('|') != npos && !trim(line).ends_with('|');
}

}  // namespace stoker::diagnose
