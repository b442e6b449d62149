// By hand, as in iteration_line.cpp: these lines are frequent.
#include "diagnose/parse/progress_forms.hpp"

#include "diagnose/input/line_scan.hpp"

namespace stoker::diagnose {

namespace {

constexpr auto npos = std::string_view::npos;

// The number behind "key": in JSON text; the objects are flat enough that the first one is meant.
std::optional<double> json_number(std::string_view text, std::string_view key) {
  std::string quoted = "\"";
  quoted += key;
  quoted += "\":";
  const auto at = text.find(quoted);
  if (at == npos) return std::nullopt;
  const auto number = scan_number(trim_left(text.substr(at + quoted.size())));
  if (!number) return std::nullopt;
  return number->value;
}

std::optional<std::string_view> mllog_of(std::string_view line, std::string_view key) {
  const auto at = line.find(":::MLLOG");
  if (at == npos) return std::nullopt;
  std::string wanted = "\"key\": \"";
  wanted += key;
  wanted += '"';
  if (line.find(wanted, at) == npos) return std::nullopt;
  return line.substr(at);
}

std::optional<std::uint64_t> count_of(std::optional<double> value) {
  if (!value || *value < 0 || *value > 1e15) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

void take_pair(IterationMetrics& metrics, std::string_view name, std::string_view text) {
  const auto number = scan_number(text);
  if (!number) return;
  if (name == "global_step")
    metrics.iteration = count_of(number->value);
  else
    assign_metric(metrics, name, number->value);
  const bool loss = name.ends_with("loss") || name.ends_with("loss_step");
  if (loss && !metrics.loss && !name.starts_with("val")) metrics.loss = number->value;
}

// tqdm's description stands in front of the bar: torchtune's "1|25|Loss: 0.92:   2%|".
std::optional<double> described_loss(std::string_view text) {
  for (const std::string_view word : {"loss", "Loss"}) {
    const auto at = find_word(text, word);
    if (at == npos) continue;
    std::string_view rest = trim_left(text.substr(at + word.size()));
    if (rest.starts_with(':') || rest.starts_with('=')) rest = trim_left(rest.substr(1));
    if (const auto number = scan_number(rest)) return number->value;
  }
  return std::nullopt;
}

// "Epoch 3:" in front of the bar, as Lightning writes it: the bar counts the batches of this epoch.
std::optional<std::uint64_t> described_epoch(std::string_view text) {
  const auto at = find_word(text, "Epoch");
  if (at == npos) return std::nullopt;
  const std::string_view rest = trim_left(text.substr(at + 5));
  std::size_t length = 0;
  const auto epoch = scan_count(rest, length);
  if (!epoch || *epoch > 1'000'000 || rest.substr(length, 1) != ":") return std::nullopt;
  return epoch;
}

// Where it has no step of its own, the bar's number counts: of an epoch, on top of those before it,
// and then its end is not the training's.
void take_bar(IterationMetrics& metrics, std::optional<std::uint64_t> epoch, std::uint64_t done,
              std::optional<std::uint64_t> total) {
  const bool whole = metrics.iteration.has_value() || !epoch;
  if (!metrics.iteration) metrics.iteration = done + epoch.value_or(0) * total.value_or(0);
  if (total && whole) metrics.total = *total;
}

}  // namespace

std::optional<IterationMetrics> parse_progress_bar(std::string_view line) {
  const auto percent = line.find("%|");
  if (percent == npos) return std::nullopt;
  const auto second = line.find('|', percent + 2);
  if (second == npos) return std::nullopt;
  std::string_view rest = trim_left(line.substr(second + 1));
  std::size_t length = 0;
  const auto done = scan_count(rest, length);
  if (!done || rest.substr(length, 1) != "/") return std::nullopt;
  rest.remove_prefix(length + 1);
  const auto total = scan_count(rest, length);
  const auto open = rest.find('[');
  const auto close = rest.rfind(']');
  if (open == npos || close == npos || close < open) return std::nullopt;
  IterationMetrics metrics;
  std::string_view pairs = rest.substr(open + 1, close - open - 1);
  while (!pairs.empty()) {
    const auto comma = pairs.find(", ");
    const std::string_view pair = trim(pairs.substr(0, comma));
    pairs.remove_prefix(comma == npos ? pairs.size() : comma + 2);
    const auto equals = pair.find('=');
    if (equals != npos) take_pair(metrics, pair.substr(0, equals), pair.substr(equals + 1));
  }
  if (!metrics.loss) metrics.loss = described_loss(line.substr(0, percent));
  if (!metrics.loss) return std::nullopt;
  take_bar(metrics, described_epoch(line.substr(0, percent)), *done, total);
  return metrics;
}

std::optional<IterationMetrics> parse_mllog(std::string_view line) {
  const auto text = mllog_of(line, "train_loss");
  if (!text) return std::nullopt;
  IterationMetrics metrics;
  metrics.loss = json_number(*text, "value");
  if (!metrics.loss) return std::nullopt;
  metrics.lr = json_number(*text, "lr");
  metrics.consumed_samples = count_of(json_number(*text, "samples_count"));
  for (const std::string_view key : {"step_num", "iteration", "step"})
    if (!metrics.iteration) metrics.iteration = count_of(json_number(*text, key));
  return metrics;
}

std::optional<ValidationMetrics> parse_mllog_validation(std::string_view line) {
  for (const std::string_view key : {"eval_loss", "eval_error", "eval_accuracy"}) {
    const auto text = mllog_of(line, key);
    if (!text) continue;
    ValidationMetrics found;
    found.dataset = std::string(key);
    found.loss = json_number(*text, "value");
    found.iteration = count_of(json_number(*text, "step_num"));
    if (found.loss) return found;
  }
  return std::nullopt;
}

std::string composer_head(std::string_view line) {
  const auto at = line.find("[batch=");
  if (at == npos || !trim(line).ends_with("]:")) return {};
  const std::string_view rest = line.substr(at + 7);
  const auto end = rest.find(']');
  const auto slash = rest.find('/');
  if (end == npos) return {};
  std::string head = "iteration ";
  head += rest.substr(0, std::min(end, slash));
  if (slash < end) {
    head += "/ ";
    head += rest.substr(slash + 1, end - slash - 1);
  }
  return head + " |";
}

std::string composer_field(std::string_view line) {
  line = trim(without_rank_prefix(line));
  if (!line.starts_with("Train ")) return {};
  line.remove_prefix(6);
  const auto colon = line.rfind(": ");
  if (colon == npos || !scan_number(line.substr(colon + 2))) return {};
  std::string_view name = line.substr(0, colon);
  if (name == "loss/train/total") name = "loss";
  if (name.starts_with("lr-") && name.ends_with("/group0")) name = "lr";
  if (name == "time/train" || name == "time/batch") return " ";  // totals, not of this iteration
  return " " + std::string(name) + std::string(line.substr(colon)) + " |";
}

}  // namespace stoker::diagnose
